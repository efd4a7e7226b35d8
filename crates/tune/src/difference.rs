//! Comparison of two studies.

use serde_json::{Value, json};

use crate::event::Header;
use crate::shortened::shortened;

/// The digits of a digest in a message.
const DIGITS: usize = 12;

/// The first setting that differs between two studies; `None` if they are equal.
pub(crate) fn difference(found: &Header, own: &Header) -> Option<String> {
    let both = [found, own].map(|header| {
        let Header { version, objectives, space, sampler, pruner, steps, seed, shared, .. } =
            header;
        json!({ "version": version, "tune": { "objectives": objectives, "space": space,
                "sampler": sampler, "pruner": pruner, "steps": steps, "seed": seed },
                "config": shared })
    });
    let setting = first_difference(&both[0], &both[1], "").map(|(key, found, own)| {
        let key = key.strip_prefix("config.").unwrap_or(&key);
        format!("`{}` ({}, here {})", shortened(key), shortened(&found), shortened(&own))
    });
    // Other settings may read other data.
    let start = |digest: &str| digest.chars().take(DIGITS).collect::<String>();
    let of_data = || {
        let digests = (start(&found.data), start(&own.data));
        format!("digest of the data ({}, here {})", digests.0, digests.1)
    };
    setting.or_else(|| (found.data != own.data).then(of_data))
}

/// The path of the first value that differs, with both values.
fn first_difference(found: &Value, own: &Value, at: &str) -> Option<(String, String, String)> {
    match (found, own) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            // The other keys of a table depend on its kind.
            keys.sort_unstable_by_key(|key| (*key != "kind", *key));
            keys.dedup();
            keys.into_iter().find_map(|key| {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                let none = &Value::Null;
                first_difference(a.get(key).unwrap_or(none), b.get(key).unwrap_or(none), &at)
            })
        }
        _ if found == own || are_close(found, own) => None,
        _ => {
            let whole = |value: &Value| value.as_f64().filter(|it| it.fract() == 0.0);
            let shown = |value: &Value| match value {
                Value::Null => "none".to_owned(),
                value if let Some(whole) = whole(value) => format!("{whole}"),
                value => value.to_string(),
            };
            Some((at.to_owned(), shown(found), shown(own)))
        }
    }
}

/// Whether two numbers differ at most in the last digits, which a reader of JSON may change.
fn are_close(a: &Value, b: &Value) -> bool {
    let both = a.as_f64().zip(b.as_f64());
    both.is_some_and(|(a, b)| (a - b).abs() <= 1e-12 * a.abs().max(b.abs()))
}
