//! A change of one value from the command line: `key=value`, or `key=` to remove the key.

use toml::{Table, Value};

use super::error::ConfigError;
use super::layers::INHERIT;

/// A change of one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Set {
    /// The text, as it was given.
    pub(super) text: String,
    /// The names on the way to the value.
    names: Vec<String>,
    /// `None` to remove the key.
    value: Option<Value>,
}

impl Set {
    /// Parses `a.b.c=value`. As in TOML, a name with dots has quotes. The value is TOML, or text if
    /// it does not parse; without a value the key is removed. A whole number that TOML does not have is
    /// no text.
    ///
    /// # Errors
    /// [`ConfigError::Set`], and [`ConfigError::Value`] for a key that only files can give and for a
    /// whole number out of the range of i64.
    pub(super) fn parse(text: &str) -> Result<Self, ConfigError> {
        let malformed = || ConfigError::Set { option: "--set", given: text.to_owned() };
        let end = end_of_key(text).ok_or_else(malformed)?;
        let (key, value) = (text[..end].trim(), text[end + 1..].trim());
        let names = names(key).ok_or_else(malformed)?;
        let parsed = || {
            let parsed = toml::from_str::<Table>(&format!("v = {value}")).ok();
            parsed.and_then(|mut table| table.remove("v"))
        };
        let given = value;
        let value = (!given.is_empty()).then(|| parsed().ok_or(given));
        let value = match value {
            Some(Err(text)) => match bound_of_long(text) {
                Some(bound) => {
                    return Err(ConfigError::Value {
                        place: String::new(),
                        key: names.join("."),
                        value: text.to_owned(),
                        expected: format!("a whole number of {bound}, or a text in quotes"),
                    });
                }
                None => Some(Value::String(text.to_owned())),
            },
            Some(Ok(value)) => Some(value),
            None => None,
        };
        if names[0] == INHERIT {
            return Err(ConfigError::Value {
                place: String::new(),
                key: INHERIT.to_owned(),
                value: value.map_or_else(String::new, |value| value.to_string()),
                expected: "given in a file, not with --set: name both files in a config, \
                           `inherit = [\"recipes/early-accuracy.toml\", \"cifar10.toml\"]`"
                    .to_owned(),
            });
        }
        Ok(Self { text: text.to_owned(), names, value })
    }

    /// The key without quotes, such as `train.epochs`.
    pub(super) fn key(&self) -> String {
        self.names.join(".")
    }

    /// Whether the key is removed.
    pub(super) fn is_removal(&self) -> bool {
        self.value.is_none()
    }

    /// Whether a table has the key.
    pub(super) fn is_in(&self, table: &Table) -> bool {
        let (last, way) = self.split();
        let inner = way.iter().try_fold(table, |table, name| table.get(name)?.as_table());
        inner.is_some_and(|inner| inner.contains_key(last))
    }

    /// A table that has only this key.
    pub(super) fn alone(&self) -> Table {
        let (first, inner) = self.names.split_first().expect("a key has a name");
        let around = |value, name: &String| Value::Table(Table::from_iter([(name.clone(), value)]));
        let value = inner.iter().rev().fold(Value::Table(Table::new()), around);
        Table::from_iter([(first.clone(), value)])
    }

    /// Changes the value in a table.
    ///
    /// # Errors
    /// [`ConfigError::Set`] for a key inside a value that is not a table.
    pub(super) fn apply(&self, table: &mut Table) -> Result<(), ConfigError> {
        let (last, way) = self.split();
        if self.is_removal() && !self.is_in(table) {
            return Ok(());
        }
        let mut inner = table;
        for name in way {
            let next = inner.entry(name.clone()).or_insert_with(|| Value::Table(Table::new()));
            inner = next
                .as_table_mut()
                .ok_or_else(|| ConfigError::Set { option: "--set", given: self.text.clone() })?;
        }
        match &self.value {
            Some(value) => inner.insert(last.clone(), value.clone()),
            None => inner.remove(last),
        };
        Ok(())
    }

    /// The last name, and the names of the tables around it.
    fn split(&self) -> (&String, &[String]) {
        self.names.split_last().expect("a key has a name")
    }
}

/// The limit that a whole number exceeds, if it is one that TOML does not have.
fn bound_of_long(text: &str) -> Option<String> {
    let number = text.replace('_', "");
    let digits = number.strip_prefix(['+', '-']).unwrap_or(&number);
    let is_whole = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_long = is_whole && number.parse::<i64>().is_err();
    is_long.then(|| match number.starts_with('-') {
        true => format!("at least {}", i64::MIN),
        false => format!("at most {}", i64::MAX),
    })
}

/// The place of the first `=` outside of quotes.
fn end_of_key(text: &str) -> Option<usize> {
    let mut quote = None;
    let is_end = |&(_, c): &(usize, char)| {
        match quote {
            Some(open) if open == c => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            _ => {}
        }
        quote.is_none() && c == '='
    };
    text.char_indices().find(is_end).map(|(at, _)| at)
}

/// The names of a dotted key; `None` if one is empty or a quote is not closed.
fn names(key: &str) -> Option<Vec<String>> {
    // Without quotes, names may have characters that TOML would quote.
    if !key.contains(['"', '\'']) {
        let names: Vec<String> = key.split('.').map(str::to_owned).collect();
        return names.iter().all(|name| !name.is_empty()).then_some(names);
    }
    let mut table = toml::from_str::<Table>(&format!("{key} = 0")).ok()?;
    let mut names = Vec::new();
    loop {
        let (name, value) = table.into_iter().next()?;
        names.push(name);
        match value {
            Value::Table(inner) => table = inner,
            _ => return Some(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str, sets: &[&str]) -> Table {
        let mut table: Table = toml::from_str(text).expect("valid");
        for set in sets {
            Set::parse(set).and_then(|set| set.apply(&mut table)).expect("valid");
        }
        table
    }

    #[test]
    fn a_change_reaches_into_tables_with_toml_values_or_text() {
        let sets = ["train.epochs=5", "device=flex", "train.schedule.kind = constant", "name=''"];
        let table = applied("[train]\nepochs = 3\n", &sets);
        assert_eq!(table["train"]["epochs"].as_integer(), Some(5));
        assert_eq!(table["device"].as_str(), Some("flex"));
        assert_eq!(table["train"]["schedule"]["kind"].as_str(), Some("constant"));
        assert_eq!(table["name"].as_str(), Some(""));
        for malformed in ["epochs", "=3", "train.=3", "train..epochs=3", "a.\"b=3", "a\"b\"=3"] {
            let refused = Set::parse(malformed);
            assert!(matches!(refused, Err(ConfigError::Set { .. })), "{malformed}: {refused:?}");
        }
        let inside = Set::parse("train.epochs.more=3").expect("a key");
        let refused = inside.apply(&mut table.clone());
        assert!(matches!(refused, Err(ConfigError::Set { .. })), "{refused:?}");
    }

    #[test]
    fn a_whole_number_that_is_too_long_is_no_text() {
        for (set, words) in [
            (
                "seed=18446744073709551615",
                "`seed` is 18446744073709551615; it must be a whole number of at most \
                 9223372036854775807, or a text in quotes",
            ),
            ("train.epochs=+18_446_744_073_709_551_616", "at most 9223372036854775807"),
            ("seed=-9223372036854775809", "at least -9223372036854775808"),
        ] {
            let error = Set::parse(set).expect_err("too long").to_string();
            assert!(error.contains(words) && !error.contains('"'), "{set}: {error}");
        }
        let table = applied("", &["a=9223372036854775807", "b=007", "c='18446744073709551615'"]);
        assert_eq!(table["a"].as_integer(), Some(i64::MAX));
        assert_eq!(table["b"].as_str(), Some("007"));
        assert_eq!(table["c"].as_str(), Some("18446744073709551615"));
    }

    #[test]
    fn a_name_in_quotes_may_have_dots_and_equals_signs() {
        let text = "[space]\n\"model.hidden\" = { low = 1, high = 2 }\n\"a=b\" = 1\n";
        for quoted in ["space.\"model.hidden\"={ low = 3 }", "space . 'model.hidden' = { low=3 }"] {
            let table = applied(text, &[quoted, "space.\"a=b\"=2"]);
            let space = table["space"].as_table().expect("a table");
            assert_eq!(space.len(), 2, "{space}");
            assert_eq!(space["model.hidden"].to_string(), "{ low = 3 }");
            assert_eq!(space["a=b"].as_integer(), Some(2));
        }
        let inner = applied(text, &["space.\"model.hidden\".high=9"]);
        assert_eq!(inner["space"]["model.hidden"]["high"].as_integer(), Some(9));
        assert_eq!(
            Set::parse("space.'model.hidden'=1").expect("valid").key(),
            "space.model.hidden"
        );
    }

    #[test]
    fn no_value_removes_the_key_and_nothing_else() {
        let text = "seed = 1\n[data]\nfraction = 0.2\nrows = 3\n";
        let table = applied(text, &["data.fraction=", "data.gone= ", "gone.more="]);
        assert_eq!(table, toml::from_str("seed = 1\ndata.rows = 3").expect("valid"));
        assert_eq!(applied(text, &["data="]), toml::from_str("seed = 1").expect("valid"));
        let again = applied(text, &["data.fraction=", "data.fraction=0.5"]);
        assert_eq!(again["data"]["fraction"].as_float(), Some(0.5));
    }
}
