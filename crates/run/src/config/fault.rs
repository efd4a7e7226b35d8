//! Where inside the value of a key serde found an error, and what is expected there.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::expected::{A_KIND, expected_by_serde, quoted_after};

/// An error of serde about the value of a key that reads as a `T`.
pub(super) struct Fault<'a> {
    whole: &'a Value,
    /// The keys inside the value that lead to the fault; empty if the whole value is wrong.
    pub(super) path: Vec<String>,
    /// serde's message.
    pub(super) message: &'a str,
}

impl<'a> Fault<'a> {
    pub(super) fn find<T: DeserializeOwned>(whole: &'a Value, error: &'a toml::de::Error) -> Self {
        let message = error.message();
        let mut fault = Self { whole, path: reported_path(whole, error), message };
        while let Some(inner) = fault.culprit::<T>() {
            fault.path.push(inner);
        }
        let is_of_kind = fault.value().get("kind").is_some() && !fault.is_name::<T>();
        if is_of_kind && message.starts_with("unknown variant ") {
            fault.path.push("kind".to_owned());
        }
        fault
    }

    /// The wrong value.
    pub(super) fn value(&self) -> &'a Value {
        at(self.whole, &self.path)
    }

    /// The wrong value as an error shows it, without the content of a table that stands for a name.
    pub(super) fn shown<T: DeserializeOwned>(&self) -> String {
        match self.value() {
            Value::Table(_) if self.is_name::<T>() => "a table".to_owned(),
            value => value.to_string(),
        }
    }

    /// Whether the value must be one of several names.
    fn is_name<T: DeserializeOwned>(&self) -> bool {
        self.choices::<T>(Value::String(String::new())).is_some()
    }

    /// The table with a key that it cannot have, by its path, and that key.
    pub(super) fn unknown(&self) -> Option<(&[String], &'a str)> {
        let unknown = quoted_after(self.message, "unknown field ")?;
        let table = match self.path.split_last() {
            Some((last, table)) if last == unknown => table,
            _ => &self.path,
        };
        Some((table, unknown))
    }

    /// The table at a path inside the value, which names no kind if it is no table.
    pub(super) fn kind(&self, path: &[String]) -> Option<&'a Value> {
        at(self.whole, path).get("kind")
    }

    /// What must be in its place, as the text after "it must be".
    pub(super) fn expected<T: DeserializeOwned>(&self) -> String {
        if let Some(words) = self.choices::<T>(Value::String(String::new())) {
            return words;
        }
        let of_serde = expected_by_serde(self.message);
        let is_missing = self.message.starts_with("missing field ");
        let is_table = of_serde == A_KIND || of_serde == "variant identifier";
        if is_table || (of_serde == "a table" && !is_missing) {
            let unnamed = Table::from_iter([("kind".to_owned(), Value::String(String::new()))]);
            if let Some(kinds) = self.choices::<T>(Value::Table(unnamed)) {
                return format!("{A_KIND}: {kinds}");
            }
        }
        of_serde
    }

    /// The names that are allowed where this value, which has an empty name, is put.
    fn choices<T: DeserializeOwned>(&self, value: Value) -> Option<String> {
        let mut whole = self.whole.clone();
        *at_mut(&mut whole, &self.path)? = value;
        let error = whole.try_into::<T>().err()?;
        let is_of_name = error.message().starts_with("unknown variant ``");
        is_of_name.then(|| expected_by_serde(error.message()))
    }

    /// The key of the wrong table without which serde reports another error.
    fn culprit<T: DeserializeOwned>(&self) -> Option<String> {
        if self.is_name::<T>() {
            return None;
        }
        let table = self.value().as_table().filter(|_| !self.message.starts_with("missing field "));
        let mut others = table?.keys().filter(|key| *key != "kind");
        let is_culprit = |key: &&String| {
            let mut whole = self.whole.clone();
            if let Some(Value::Table(table)) = at_mut(&mut whole, &self.path) {
                table.remove(*key);
            }
            whole.try_into::<T>().err().is_none_or(|error| error.message() != self.message)
        };
        others.find(is_culprit).cloned()
    }
}

/// The path that the error shows; none inside a table whose kind decides its keys.
fn reported_path(whole: &Value, error: &toml::de::Error) -> Vec<String> {
    let text = error.to_string();
    let shown = text.strip_prefix(error.message()).map(str::trim);
    let shown = shown.and_then(|shown| shown.strip_prefix("in `")?.strip_suffix('`'));
    let (mut rest, mut value, mut path) = (shown.unwrap_or_default(), whole, Vec::new());
    // Keys may have dots in their names.
    while let Value::Table(table) = value
        && !rest.is_empty()
    {
        let after = |key: &str| match rest.strip_prefix(key)? {
            "" => Some(""),
            inner => inner.strip_prefix('.'),
        };
        let Some((key, next, inner)) = table
            .iter()
            .filter_map(|(key, next)| Some((key, next, after(key)?)))
            .max_by_key(|(key, ..)| key.len())
        else {
            break;
        };
        path.push(key.clone());
        (value, rest) = (next, inner);
    }
    path
}

fn at<'a>(value: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(value, |value, key| value.get(key).unwrap_or(value))
}

fn at_mut<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| value.get_mut(key))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its errors are tested")]
    struct Column {
        #[serde(default)]
        weight: f64,
        #[serde(default)]
        policy: Option<Policy>,
        #[serde(default)]
        loss: Option<Loss>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Policy {
        Refuse,
        Skip,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
    #[allow(dead_code, reason = "only its errors are tested")]
    enum Loss {
        Plain,
        Focal {
            gamma: f64,
            #[serde(default)]
            weights: Option<Policy>,
        },
    }

    #[test]
    fn the_innermost_wrong_value_is_found_in_tables_of_tables() {
        for (text, path, expected) in [
            ("a = { weight = true }", "a.weight", "a number"),
            ("a = { weight = true }\nb = { weight = true }", "a.weight", "a number"),
            ("\"a.b\" = { weight = true }\na = {}", "a.b.weight", "a number"),
            ("a = 3", "a", "a table"),
            ("a = { policy = {} }", "a.policy", "`refuse` or `skip`"),
            ("a = { policy = { kind = \"skip\" } }", "a.policy", "`refuse` or `skip`"),
            ("a = { policy = 3 }", "a.policy", "`refuse` or `skip`"),
            ("a = { policy = \"no\" }", "a.policy", "`refuse` or `skip`"),
            ("a = { loss = [0] }", "a.loss", "a table with `kind`: `plain` or `focal`"),
            ("a = { loss = \"plain\" }", "a.loss", "a table with `kind`: `plain` or `focal`"),
            ("a = { loss = { kind = \"x\" } }", "a.loss.kind", "`plain` or `focal`"),
            ("a = { loss = { kind = \"focal\" } }", "a.loss", "a table with `gamma`"),
            ("a = { loss = { kind = \"focal\", gamma = [] } }", "a.loss.gamma", "a number"),
            (
                "a = { loss = { kind = \"focal\", gamma = 1.0, weights = [1.0, 2.0] } }",
                "a.loss.weights",
                "`refuse` or `skip`",
            ),
            (
                "a = { loss = { kind = \"focal\", gamma = 1.0, weights = { x = 1.0 } } }",
                "a.loss.weights",
                "`refuse` or `skip`",
            ),
        ] {
            let value = Value::Table(text.parse().expect("TOML"));
            let error = value.clone().try_into::<BTreeMap<String, Column>>().expect_err("wrong");
            let fault = Fault::find::<BTreeMap<String, Column>>(&value, &error);
            assert_eq!(fault.path.join("."), path, "{text}");
            assert_eq!(fault.expected::<BTreeMap<String, Column>>(), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_key_is_named_with_the_table_that_has_it() {
        for (text, table, key) in [
            ("a = { wait = 1 }", "a", "wait"),
            ("a = { wait = 1 }\nb = { wait = 1 }", "a", "wait"),
            ("a = { loss = { kind = \"focal\", gam = 1, gamma = 2 } }", "a.loss", "gam"),
        ] {
            let value = Value::Table(text.parse().expect("TOML"));
            let error = value.clone().try_into::<BTreeMap<String, Column>>().expect_err("wrong");
            let fault = Fault::find::<BTreeMap<String, Column>>(&value, &error);
            let (path, unknown) = fault.unknown().expect("an unknown key");
            assert_eq!((path.join(".").as_str(), unknown), (table, key), "{text}");
        }
    }
}
