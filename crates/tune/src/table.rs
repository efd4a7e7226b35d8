//! Reads a key's range and conditions from a table of a configuration.

use toml::{Table, Value};

use crate::error::TuneError;
use crate::shortened::shortened;
use crate::space::Range;

/// Other keys and the values that they must have.
pub(crate) type Conditions = Vec<(String, Vec<Value>)>;

/// The largest integer of a range; larger ones are not exact as `f64`.
const MOST_INTEGER: i64 = 1 << 53;

/// The path of a key in errors.
pub(crate) fn place(key: &str) -> String {
    format!("tune.space.{key}")
}

/// Values separated by commas.
pub(crate) fn listed(values: &[Value]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Collects all tables with a string `kind` inside a table, with their keys.
pub(crate) fn flatten<'a>(
    table: &'a Table,
    found: &mut Vec<(String, &'a Table)>,
) -> Result<(), TuneError> {
    flatten_below(table, table, "", found)
}

fn flatten_below<'a>(
    space: &Table,
    table: &'a Table,
    start: &str,
    found: &mut Vec<(String, &'a Table)>,
) -> Result<(), TuneError> {
    for (name, value) in table {
        let key = if start.is_empty() { name.clone() } else { format!("{start}.{name}") };
        match value {
            Value::Table(inner) if matches!(inner.get("kind"), Some(Value::String(_))) => {
                found.push((key, inner));
            }
            Value::Table(inner) if !inner.is_empty() => flatten_below(space, inner, &key, found)?,
            other => {
                let mut expected =
                    "a table with `kind`: `float`, `integer` or `categorical`".to_owned();
                if start.contains('.') && space.contains_key(start) {
                    let quoted = place(&shortened(&format!("\"{start}\".{name}")));
                    expected = format!("written with quotes, as its range is: `{quoted}`");
                }
                return Err(TuneError::setting(place(&key), other, expected));
            }
        }
    }
    Ok(())
}

/// The range of a key.
pub(crate) fn range(key: &str, table: &Table) -> Result<Range, TuneError> {
    let kind = table["kind"].as_str().unwrap_or_default();
    let known: &[&str] = match kind {
        "float" | "integer" => &["low", "high", "log", "step"],
        "categorical" => &["choices"],
        _ => {
            let expected = "`float`, `integer` or `categorical`";
            return Err(TuneError::setting(
                format!("{}.kind", place(key)),
                &table["kind"],
                expected,
            ));
        }
    };
    let mut names = table.keys().filter(|name| *name != "kind" && *name != "when");
    if let Some(unknown) = names.find(|name| !known.contains(&name.as_str())) {
        return Err(TuneError::setting(
            format!("{}.{unknown}", place(key)),
            &table[unknown],
            format!("left out: `kind = \"{kind}\"` has `{}` and `when`", known.join("`, `")),
        ));
    }
    let at = |name: &str| format!("{}.{name}", place(key));
    let refuse = |name: &str, expected: &str| {
        let value = table.get(name).map_or_else(|| "missing".to_owned(), ToString::to_string);
        Err(TuneError::setting(at(name), value, expected))
    };
    let is_log = match table.get("log") {
        None => false,
        Some(Value::Boolean(is_log)) => *is_log,
        Some(_) => return refuse("log", "`true` or `false`"),
    };
    if is_log && table.contains_key("step") && kind == "float" {
        return refuse("step", "left out beside `log`");
    }
    match kind {
        "float" => {
            let number = |name: &str| match table.get(name) {
                Some(Value::Float(number)) if number.is_finite() => Some(*number),
                Some(Value::Integer(number)) => Some(*number as f64),
                _ => None,
            };
            let Some(low) = number("low") else { return refuse("low", "a finite number") };
            let Some(high) = number("high") else { return refuse("high", "a finite number") };
            if low >= high {
                let low = shortened(&low.to_string());
                return refuse("high", &format!("above `low`, which is {low}"));
            }
            if is_log && low <= 0.0 {
                return refuse("low", "above 0 beside `log = true`");
            }
            let step = match table.get("step") {
                None => None,
                Some(_) => match number("step").filter(|step| *step > 0.0 && *step <= high - low) {
                    None => return refuse("step", "above 0 and at most `high` - `low`"),
                    step => step,
                },
            };
            Ok(Range::Float { low, high, is_log, step })
        }
        "integer" => {
            let number = |name: &str| {
                let number = table.get(name).and_then(Value::as_integer);
                number.filter(|number| number.unsigned_abs() <= MOST_INTEGER as u64)
            };
            let Some(low) = number("low") else { return refuse("low", "a whole number") };
            let Some(high) = number("high") else { return refuse("high", "a whole number") };
            if low >= high {
                return refuse("high", &format!("above `low`, which is {low}"));
            }
            if is_log && low < 1 {
                return refuse("low", "at least 1 beside `log = true`");
            }
            let step = match table.get("step") {
                None => 1,
                Some(_) if is_log => return refuse("step", "left out beside `log`"),
                Some(_) => match number("step").filter(|step| *step > 0 && *step <= high - low) {
                    None => return refuse("step", "at least 1 and at most `high` - `low`"),
                    Some(step) => step,
                },
            };
            Ok(Range::Integer { low, high, is_log, step })
        }
        _ => {
            let expected = "a list of at least two values, none of them twice";
            let Some(choices) = table.get("choices").and_then(Value::as_array) else {
                return refuse("choices", expected);
            };
            let is_twice = |at: usize| choices[..at].contains(&choices[at]);
            if choices.len() < 2 || (0..choices.len()).any(is_twice) {
                return refuse("choices", expected);
            }
            Ok(Range::Choice { choices: choices.clone() })
        }
    }
}

/// The conditions of a key: other keys and the values that they must have.
pub(crate) fn conditions(key: &str, table: &Table) -> Result<Conditions, TuneError> {
    let Some(when) = table.get("when") else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let is_read = when.as_table().is_some_and(|when| !when.is_empty());
    if !is_read {
        let expected = "a table of other keys and their values, such as \
                        { \"model.kind\" = \"kan\" }";
        return Err(TuneError::setting(format!("{}.when", place(key)), when, expected));
    }
    let mut tables = vec![(String::new(), when)];
    while let Some((start, value)) = tables.pop() {
        match value {
            Value::Table(inner) => {
                for (name, value) in inner {
                    let dot = if start.is_empty() { "" } else { "." };
                    tables.push((format!("{start}{dot}{name}"), value));
                }
            }
            Value::Array(values) if !values.is_empty() => found.push((start, values.clone())),
            value => found.push((start, vec![value.clone()])),
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}
