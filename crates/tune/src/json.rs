//! A space and its points in JSON, the format of the journal.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use toml::Value;

use crate::space::{Parameter, Point, Range, Space};

impl Space {
    /// The values of a point in JSON.
    pub(crate) fn to_json(&self, point: &[Option<f64>]) -> Map<String, Json> {
        let values = self.values(point);
        values.into_iter().map(|(key, value)| (key.to_owned(), json(&value))).collect()
    }

    /// The point with these values in JSON; `None` if the values do not match the space.
    pub(crate) fn read_json(&self, values: &Map<String, Json>) -> Option<Point> {
        let mut point: Point = Vec::with_capacity(self.parameters().len());
        for (at, parameter) in self.parameters().iter().enumerate() {
            let value = match (values.get(parameter.key()), self.has_value(at, &point)) {
                (None, false) => None,
                (Some(value), true) => Some(match parameter.range() {
                    Range::Choice { choices } => {
                        choices.iter().position(|choice| json(choice) == *value)? as f64
                    }
                    _ => value.as_f64()?,
                }),
                _ => return None,
            };
            point.push(value);
        }
        (values.len() == point.iter().flatten().count()).then_some(point)
    }

    /// The space in JSON, to compare two spaces.
    pub(crate) fn description(&self) -> Json {
        let describe = |(at, parameter): (usize, &Parameter)| {
            let (low, high, step, is_log) = parameter.bounds();
            let mut described = match parameter.range() {
                Range::Choice { choices } => {
                    serde_json::json!({ "kind": "categorical",
                        "choices": choices.iter().map(json).collect::<Vec<_>>() })
                }
                range => {
                    let kind =
                        if matches!(range, Range::Float { .. }) { "float" } else { "integer" };
                    serde_json::json!({ "kind": kind, "low": low, "high": high, "step": step,
                        "log": is_log })
                }
            };
            if !self.when(at).is_empty() {
                let when: BTreeMap<&str, Vec<Json>> = self
                    .when(at)
                    .iter()
                    .map(|(other, places)| {
                        let other = &self.parameters()[*other];
                        let written = |at: &usize| json(&other.written(*at as f64));
                        (other.key(), places.iter().map(written).collect())
                    })
                    .collect();
                described["when"] = serde_json::json!(when);
            }
            (parameter.key().to_owned(), described)
        };
        Json::Object(self.parameters().iter().enumerate().map(describe).collect())
    }
}

/// A value of a configuration in JSON.
fn json(value: &Value) -> Json {
    serde_json::to_value(value).unwrap_or(Json::Null)
}
