//! The keys in which a stored plan differs from the one that its run started with.

use std::fmt;

use toml::{Table, Value};

use super::key::{AnyKey, Edit};
use super::key_path::find;
use super::shortened::shortened;

/// A key of a stored plan that was edited after the run started.
#[derive(Debug, Clone, PartialEq)]
pub struct Edited {
    /// The key.
    pub key: &'static str,
    /// Its value when the run started, in TOML; `None` if it was not given.
    pub begun: Option<String>,
    /// Its value now.
    pub now: Option<String>,
    /// The effect on the run.
    pub edit: Edit,
}

/// As in "`train.learning_rate` is 0.1; the run began with 0.002".
impl fmt::Display for Edited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, begun, now, .. } = self;
        match now {
            Some(now) => write!(f, "`{key}` is {}", shortened(now))?,
            None => write!(f, "`{key}` is not given")?,
        }
        match begun {
            Some(begun) => write!(f, "; the run began with {}", shortened(begun)),
            None => f.write_str("; the run began without it"),
        }
    }
}

/// The keys whose values differ and that change a result, in their order.
pub(super) fn edits<'a>(
    keys: impl Iterator<Item = &'a dyn AnyKey>,
    begun: &Table,
    now: &Table,
) -> Vec<Edited> {
    let edited = |key: &dyn AnyKey| {
        let (before, after) = (find(begun, key.name()), find(now, key.name()));
        let is_same = match (before, after) {
            (Some(before), Some(after)) => same(before, after),
            (None, None) => true,
            _ => false,
        };
        let text = |value: Option<&Value>| value.map(ToString::to_string);
        (!is_same && key.edit() != Edit::Free).then(|| Edited {
            key: key.name(),
            begun: text(before),
            now: text(after),
            edit: key.edit(),
        })
    };
    keys.filter_map(edited).collect()
}

/// Whether two values are the same; 1 and 1.0 are.
fn same(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Table(a), Value::Table(b)) => {
            let is_in_b = |(key, value)| b.get(key).is_some_and(|other| same(value, other));
            a.len() == b.len() && a.iter().all(is_in_b)
        }
        (Value::Integer(a), Value::Integer(b)) => a == b,
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
            _ => a == b,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Plan;
    use crate::task::TASKS;

    #[test]
    fn an_edit_is_refused_reported_or_free_by_its_key() {
        let plan =
            |text: &str| Plan::read(TASKS, text, Path::new("c.toml"), &[]).expect("valid").plan;
        let begun = plan("data.mean = [0, 0.5, 1]\ntrain.clip_norm = 1.0");
        for (text, key, edit, said) in [
            (
                "train.learning_rate = 0.1",
                "train.learning_rate",
                Edit::Reported,
                "is 0.1; the run began with 0.002",
            ),
            (
                "model.dropout = 0.5",
                "model.dropout",
                Edit::Reported,
                "is 0.5; the run began with 0.0",
            ),
            (
                "model.brightness = \"bt601\"",
                "model.brightness",
                Edit::Refused,
                "is \"bt601\"; the run began with \"bt709\"",
            ),
            ("precision = \"bf16-mixed\"", "precision", Edit::Refused, "began with \"f32\""),
            (
                "train.accumulate = 2",
                "train.accumulate",
                Edit::Reported,
                "is 2; the run began with 1",
            ),
            ("train.loss = { kind = \"focal\" }", "train.loss", Edit::Reported, "focal"),
            ("seed = 2", "seed", Edit::Refused, "is 2; the run began with 1"),
            (
                "train.ema_decay = 0.9",
                "train.ema_decay",
                Edit::Reported,
                "is 0.9; the run began without it",
            ),
        ] {
            let now = plan(&format!("{text}\ndata.mean = [0.0, 0.5, 1.0]\ntrain.clip_norm = 1"));
            let found = now.edited_since(begun.table());
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert_eq!((found[0].key, found[0].edit), (key, edit));
            assert!(found[0].to_string().contains(said), "{}", found[0]);
        }
        let now =
            plan("data.mean = [0, 0.5, 1]\nname = \"other\"\ntrain.workers = 3\nlog.csv = true");
        let found = now.edited_since(begun.table());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].to_string(), "`train.clip_norm` is not given; the run began with 1.0");
    }
}
