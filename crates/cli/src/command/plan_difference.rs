//! The first key in which two plans differ.

use toml::{Table, Value};

/// The most characters of a value in a message.
const MOST_SHOWN: usize = 60;

/// The first key whose value differs, with both values, as in "`train.epochs` (1, here 30)"; `None`
/// if the plans are equal.
pub(super) fn plan_difference(found: &Table, own: &Table) -> Option<String> {
    of_tables(found, own, "")
}

fn of_tables(found: &Table, own: &Table, at: &str) -> Option<String> {
    let mut keys: Vec<&String> = found.keys().chain(own.keys()).collect();
    // The other keys of a table depend on its kind.
    keys.sort_unstable_by_key(|key| (key.as_str() != "kind", *key));
    keys.dedup();
    keys.into_iter().find_map(|key| {
        let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        match (found.get(key), own.get(key)) {
            (Some(Value::Table(found)), Some(Value::Table(own))) => of_tables(found, own, &at),
            (found, own) if found == own => None,
            (found, own) => Some(format!("`{at}` ({}, here {})", shown(found), shown(own))),
        }
    })
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "none".to_owned(), ToString::to_string);
    match text.char_indices().nth(MOST_SHOWN) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_that_differs_is_named_and_a_kind_before_the_keys_that_depend_on_it() {
        let table = |text: &str| toml::from_str::<Table>(text).expect("TOML");
        let found = table("a = 1\n[train]\nbatch = 8\nepochs = 1");
        for (own, expected) in [
            ("a = 1\n[train]\nepochs = 1\nbatch = 8", None),
            ("a = 1\n[train]\nepochs = 30\nbatch = 8", Some("`train.epochs` (1, here 30)")),
            ("a = 1\n[train]\nepochs = 1", Some("`train.batch` (8, here none)")),
            ("[train]\nepochs = 1\nbatch = 8\n[z]\nb = 1", Some("`a` (1, here none)")),
        ] {
            let difference = plan_difference(&found, &table(own));
            assert_eq!(difference.as_deref(), expected, "{own}");
        }
        let (found, own) = (table("c = { kind = \"x\", a = 1 }"), table("c = { kind = \"y\" }"));
        let difference = plan_difference(&found, &own);
        assert_eq!(difference.as_deref(), Some("`c.kind` (\"x\", here \"y\")"));
        let long = table(&format!("a = \"{}\"", "x".repeat(1000)));
        assert!(plan_difference(&long, &own).is_some_and(|text| text.chars().count() < 100));
    }
}
