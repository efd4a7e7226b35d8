//! The search space: keys, their ranges and their conditions.

use toml::{Table, Value};

use crate::error::TuneError;
use crate::shortened::shortened;
use crate::table::{Conditions, conditions, flatten, listed, place, range};

/// The range of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Range {
    /// A number in an interval.
    Float {
        /// The smallest value.
        low: f64,
        /// The largest value.
        high: f64,
        /// Whether equal ratios, instead of equal differences, are equally likely.
        is_log: bool,
        /// The distance between two values; `None` if any number in the interval is allowed.
        step: Option<f64>,
    },
    /// An integer in an interval.
    Integer {
        /// The smallest value.
        low: i64,
        /// The largest value.
        high: i64,
        /// Whether equal ratios, instead of equal differences, are equally likely.
        is_log: bool,
        /// The distance between two values, at least 1.
        step: i64,
    },
    /// One of several values without an order.
    Choice {
        /// The values, each once.
        choices: Vec<Value>,
    },
}

/// A searched key.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    key: String,
    range: Range,
    /// The conditions: indices of earlier categorical parameters, and their choices for which this
    /// parameter has a value.
    when: Vec<(usize, Vec<usize>)>,
}

/// A value for each parameter of a space, in order: the number, or the index of the choice; `None`
/// if the conditions of the parameter are not met.
pub type Point = Vec<Option<f64>>;

/// A search space: keys with their ranges and conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    parameters: Vec<Parameter>,
}

/// Significant digits of a number in a range without steps; JSON keeps them exactly.
const FLOAT_DIGITS: usize = 6;

/// Significant digits of a number in a range with steps.
const STEP_DIGITS: usize = 12;

impl Parameter {
    /// The key of the configuration.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The range of its values.
    #[must_use]
    pub fn range(&self) -> &Range {
        &self.range
    }

    /// The number of choices; `None` for numbers.
    pub(crate) fn choices(&self) -> Option<usize> {
        match &self.range {
            Range::Choice { choices } => Some(choices.len()),
            _ => None,
        }
    }

    /// Low, high, step and whether the scale is logarithmic, for numbers.
    pub(crate) fn bounds(&self) -> (f64, f64, Option<f64>, bool) {
        match self.range {
            Range::Float { low, high, is_log, step } => (low, high, step, is_log),
            Range::Integer { low, high, is_log, step } => {
                (low as f64, high as f64, Some(step as f64), is_log)
            }
            Range::Choice { ref choices } => (0.0, choices.len() as f64 - 1.0, Some(1.0), false),
        }
    }

    /// Maps a number to 0 to 1, so that equal distances are equally likely. Each value of a range
    /// with steps has an interval of half a step on each side.
    pub(crate) fn unit(&self, value: f64) -> f64 {
        let (low, high, step, is_log) = self.bounds();
        let half = step.unwrap_or(0.0) / 2.0;
        let scale = |x: f64| if is_log { libm::log(x.max(f64::MIN_POSITIVE)) } else { x };
        let (start, end) = (scale(low - half), scale(high + half));
        if end > start { ((scale(value) - start) / (end - start)).clamp(0.0, 1.0) } else { 0.5 }
    }

    /// The interval within 0 to 1 that belongs to a value; `None` for a range without steps.
    pub(crate) fn interval(&self, value: f64) -> Option<(f64, f64)> {
        let half = self.bounds().2? / 2.0;
        Some((self.unit(value - half), self.unit(value + half)))
    }

    /// The value at a position from 0 to 1.
    pub(crate) fn value(&self, unit: f64) -> f64 {
        let (low, high, step, is_log) = self.bounds();
        let half = step.unwrap_or(0.0) / 2.0;
        let value = if is_log {
            let (start, end) = (libm::log(low - half), libm::log(high + half));
            libm::exp(start + unit * (end - start))
        } else {
            low - half + unit * (high - low + 2.0 * half)
        };
        self.nearest(value)
    }

    /// The nearest value in the range.
    pub(crate) fn nearest(&self, value: f64) -> f64 {
        let (low, high, step, _) = self.bounds();
        let value = value.clamp(low, high);
        match step {
            Some(step) => {
                // The last step may end below `high`.
                let most = ((high - low) / step + 1e-9).floor();
                let steps = ((value - low) / step).round().min(most);
                digits(low + steps * step, STEP_DIGITS)
            }
            None => digits(value, FLOAT_DIGITS).clamp(low, high),
        }
    }

    /// The value in TOML, as in a configuration.
    pub(crate) fn written(&self, value: f64) -> Value {
        match &self.range {
            Range::Float { .. } => Value::Float(value),
            Range::Integer { .. } => Value::Integer(value as i64),
            Range::Choice { choices } => choices[value as usize].clone(),
        }
    }

    /// The smallest and the largest number, or every choice.
    fn extremes(&self) -> Vec<f64> {
        match self.choices() {
            Some(count) => (0..count).map(|at| at as f64).collect(),
            None => {
                let (low, high, ..) = self.bounds();
                vec![low, self.nearest(high)]
            }
        }
    }

    /// How many values [`grid`](Self::grid) computes, before it leaves out equal ones.
    pub(crate) fn grid_count(&self, count: usize) -> usize {
        match &self.range {
            Range::Float { step: None, .. } | Range::Integer { step: ..=1, .. } => count,
            Range::Float { low, high, step: Some(step), .. } => {
                (((high - low) / step) as usize).saturating_add(1)
            }
            Range::Integer { low, high, step, .. } => ((high - low) / step) as usize + 1,
            Range::Choice { choices } => choices.len(),
        }
    }

    /// Evenly spaced values: `count` values of a range without steps, otherwise all.
    pub(crate) fn grid(&self, count: usize) -> Vec<f64> {
        use optimizer::distribution::{FloatDistribution, IntDistribution};
        use optimizer::sampler::grid::{generate_float_grid_points, generate_int_grid_points};
        let mut points = match self.range {
            Range::Float { low, high, is_log, step } => {
                let range = FloatDistribution { low, high, log_scale: is_log, step };
                generate_float_grid_points(&range, count)
            }
            Range::Integer { low, high, is_log, step } => {
                // A step of 1 is the default and does not mean every integer.
                let step = (step > 1).then_some(step);
                let range = IntDistribution { low, high, log_scale: is_log, step };
                generate_int_grid_points(&range, count).into_iter().map(|it| it as f64).collect()
            }
            Range::Choice { .. } => return self.extremes(),
        };
        points.iter_mut().for_each(|point| *point = self.nearest(*point));
        points.dedup();
        points
    }
}

/// Rounds a number to `count` significant digits.
fn digits(value: f64, count: usize) -> f64 {
    format!("{value:.*e}", count - 1).parse().expect("a number that was written is one")
}

impl Space {
    /// Reads `[tune.space]`: a table of keys, each with `kind`, its range, and optionally `when`.
    ///
    /// # Errors
    /// [`TuneError::Setting`] for an empty space, an invalid range, or a condition that cannot be
    /// met.
    ///
    /// # Example
    /// ```
    /// use updraft_tune::Space;
    ///
    /// let space: toml::Table = toml::from_str(r#"
    ///     "train.learning_rate" = { kind = "float", low = 1e-4, high = 0.1, log = true }
    ///     "train.optimizer.kind" = { kind = "categorical", choices = ["adamw", "sgd"] }
    ///
    ///     [train.optimizer.momentum]
    ///     kind = "float"
    ///     low = 0.0
    ///     high = 0.9
    ///     when = { "train.optimizer.kind" = "sgd" }
    /// "#)?;
    /// let space = Space::read(&space)?;
    /// assert_eq!(space.parameters().len(), 3);
    /// let empty = Space::read(&toml::Table::new()).expect_err("refused");
    /// assert_eq!(empty.to_string(), "`tune.space` is empty; it must be a table of keys with their ranges");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(table: &Table) -> Result<Self, TuneError> {
        let mut found = Vec::new();
        flatten(table, &mut found)?;
        if found.is_empty() {
            let expected = "a table of keys with their ranges";
            return Err(TuneError::setting("tune.space", "empty", expected));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some(twice) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let key = &twice[0].0;
            let quoted = shortened(key);
            let expected =
                format!("given once, as `tune.space.\"{quoted}\"` or without the quotes");
            return Err(TuneError::setting(place(key), "given twice", expected));
        }
        let mut waiting = Vec::new();
        for (key, table) in found {
            let (range, when) = (range(&key, table)?, conditions(&key, table)?);
            waiting.push((key, range, when));
        }
        let mut space = Self { parameters: Vec::new() };
        // A parameter follows all parameters that its conditions name.
        while !waiting.is_empty() {
            let is_ready = |(_, _, when): &(String, Range, Conditions)| {
                when.iter().all(|(key, _)| space.place(key).is_some())
            };
            let Some(at) = waiting.iter().position(is_ready) else {
                let (key, _, when) = &waiting[0];
                let missing = when.iter().find(|(key, _)| space.place(key).is_none());
                let other = missing.map_or("", |(other, _)| other.as_str());
                return Err(TuneError::setting(
                    format!("{}.when", place(key)),
                    format!("a condition on `{other}`"),
                    "on categorical keys of `tune.space`, without cycles",
                ));
            };
            let (key, range, when) = waiting.remove(at);
            let when = space.resolved(&key, when)?;
            space.parameters.push(Parameter { key, range, when });
        }
        Ok(space)
    }

    /// The searched keys; each follows all keys that its conditions name.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn place(&self, key: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter.key == key)
    }

    /// The conditions with keys and values replaced by indices.
    fn resolved(&self, key: &str, when: Conditions) -> Result<Vec<(usize, Vec<usize>)>, TuneError> {
        let mut resolved = Vec::new();
        for (other, values) in when {
            let at = self.place(&other).expect("parameters follow those that they name");
            let Range::Choice { choices } = &self.parameters[at].range else {
                let expected = "a condition on a categorical key of `tune.space`";
                return Err(TuneError::setting(
                    format!("{}.when.{other}", place(key)),
                    "a number",
                    expected,
                ));
            };
            let mut places = Vec::new();
            for value in values {
                let found = choices.iter().position(|choice| *choice == value);
                places.push(found.ok_or_else(|| {
                    TuneError::setting(
                        format!("{}.when.{other}", place(key)),
                        &value,
                        format!("one of {}", shortened(&listed(choices))),
                    )
                })?);
            }
            resolved.push((at, places));
        }
        Ok(resolved)
    }

    /// Whether the conditions of a parameter are met by the earlier values of a point.
    pub(crate) fn has_value(&self, at: usize, point: &[Option<f64>]) -> bool {
        let mut when = self.parameters[at].when.iter();
        when.all(|(other, places)| {
            point[*other].is_some_and(|choice| places.contains(&(choice as usize)))
        })
    }

    /// The conditions of a parameter; parameters with equal conditions have values together.
    pub(crate) fn when(&self, at: usize) -> &[(usize, Vec<usize>)] {
        &self.parameters[at].when
    }

    /// Builds a point; `draw` returns the value of each parameter whose conditions are met.
    pub(crate) fn point(&self, mut draw: impl FnMut(usize, &Parameter) -> f64) -> Point {
        let mut point: Point = Vec::with_capacity(self.parameters.len());
        for (at, parameter) in self.parameters.iter().enumerate() {
            let value = self.has_value(at, &point).then(|| draw(at, parameter));
            point.push(value);
        }
        point
    }

    /// Points that together contain both ends of every range and every choice.
    #[must_use]
    pub fn extremes(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (wanted, parameter) in self.parameters.iter().enumerate() {
            for extreme in parameter.extremes() {
                points.push(self.point(|at, parameter| match at == wanted {
                    true => extreme,
                    false => self.leading(wanted, at).unwrap_or(parameter.extremes()[0]),
                }));
            }
        }
        points
    }

    /// The choice of parameter `at` for which `wanted` has a value, if it depends on `at`.
    fn leading(&self, wanted: usize, at: usize) -> Option<f64> {
        self.parameters[wanted].when.iter().find_map(|(other, places)| {
            let own = (*other == at).then(|| places[0] as f64);
            own.or_else(|| self.leading(*other, at))
        })
    }

    /// The values of a point with their keys, in TOML.
    #[must_use]
    pub fn values(&self, point: &[Option<f64>]) -> Vec<(&str, Value)> {
        let both = self.parameters.iter().zip(point);
        let value = |(parameter, value): (&'_ Parameter, &Option<f64>)| -> Option<Value> {
            Some(parameter.written((*value)?))
        };
        both.filter_map(|pair| Some((pair.0.key.as_str(), value(pair)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn space(text: &str) -> Result<Space, TuneError> {
        Space::read(&toml::from_str(text).expect("TOML"))
    }

    const ALL: &str = r#"
        rate = { kind = "float", low = 1e-5, high = 0.1, log = true }
        drop = { kind = "float", low = 0.1, high = 0.7, step = 0.1 }
        width = { kind = "integer", low = 16, high = 100, step = 16 }
        depth = { kind = "integer", low = 1, high = 64, log = true }
        net = { kind = "categorical", choices = ["a", "b", [1, 2]] }
        grid.size = { kind = "integer", low = 3, high = 5, when = { net = ["b", [1, 2]] } }
    "#;

    #[test]
    fn values_of_every_kind_stay_in_their_range_and_survive_json() {
        let space = space(ALL).expect("valid");
        let mut random = Random::new(1, 0);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            let point = space.point(|_, parameter| match parameter.choices() {
                Some(count) => random.below(count as u64) as f64,
                None => parameter.value(random.unit()),
            });
            let json = space.to_json(&point);
            let text = serde_json::to_string(&json).expect("written");
            let read = serde_json::from_str(&text).expect("read");
            assert_eq!(space.read_json(&read).as_ref(), Some(&point), "{text}");
            for (key, value) in space.values(&point) {
                seen.insert(if key == "rate" { String::new() } else { format!("{key}={value}") });
                if key == "rate" {
                    let rate = value.as_float().expect("a number");
                    assert!((1e-5..=0.1).contains(&rate), "{rate}");
                }
            }
        }
        for expected in [
            "drop=0.1",
            "drop=0.3",
            "drop=0.7",
            "width=16",
            "width=96",
            "depth=1",
            "depth=64",
            "net=\"a\"",
            "net=[1, 2]",
            "grid.size=3",
            "grid.size=5",
        ] {
            assert!(seen.contains(expected), "{expected} in {seen:?}");
        }
        assert!(!seen.contains("width=100") && !seen.contains("depth=0"), "{seen:?}");
    }

    #[test]
    fn a_key_with_a_condition_has_a_value_only_where_it_holds() {
        let space = space(ALL).expect("valid");
        let at = |key: &str| space.parameters.iter().position(|it| it.key == key).expect("there");
        let (net, size) = (at("net"), at("grid.size"));
        assert!(net < size, "the condition comes first");
        for (choice, has_value) in [(0.0, false), (1.0, true), (2.0, true)] {
            let point = space.point(|at, it| if at == net { choice } else { it.extremes()[0] });
            assert_eq!(point[size].is_some(), has_value, "{choice}");
        }
        let reached = space.extremes().iter().filter_map(|it| it[size]).collect::<Vec<_>>();
        assert!(reached.contains(&3.0) && reached.contains(&5.0), "{reached:?}");
    }

    #[test]
    fn a_range_that_is_none_is_refused_with_its_key() {
        for (text, expected) in [
            ("a = 3", "`tune.space.a` is 3; it must be a table with `kind`"),
            (
                "\"a.b\" = { kind = \"float\", low = 1, high = 2 }\na.b.low = 3",
                "`tune.space.a.b.low` is 3; it must be written with quotes, as its range is: \
                 `tune.space.\"a.b\".low`",
            ),
            ("a.kind = \"double\"", "`tune.space.a.kind` is \"double\"; it must be `float`"),
            (
                "a = { kind = \"float\", low = 2, high = 1 }",
                "`tune.space.a.high` is 1; it must be above `low`, which is 2",
            ),
            ("a = { kind = \"float\", high = 1 }", "`tune.space.a.low` is missing;"),
            (
                "a = { kind = \"float\", low = 0, high = 1, log = true }",
                "`tune.space.a.low` is 0; it must be above 0 beside `log = true`",
            ),
            (
                "a = { kind = \"integer\", low = 0.5, high = 1 }",
                "`tune.space.a.low` is 0.5; it must be a whole number",
            ),
            (
                "a = { kind = \"integer\", low = 1, high = 4, step = 9 }",
                "`tune.space.a.step` is 9;",
            ),
            ("a = { kind = \"categorical\", choices = [1] }", "`tune.space.a.choices` is [1];"),
            ("a = { kind = \"categorical\", choices = [1, 1] }", "none of them twice"),
            (
                "a = { kind = \"float\", low = 0, high = 1, lgo = true }",
                "`tune.space.a.lgo` is true; it must be left out: `kind = \"float\"` has `low`",
            ),
            (
                "a = { kind = \"float\", low = 0, high = 1, when = { b = 1 } }",
                "`tune.space.a.when` is a condition on `b`; it must be on categorical keys",
            ),
            (
                "a = { kind = \"float\", low = 0, high = 1, when = { b = 1 } }\n\
                 b = { kind = \"categorical\", choices = [2, 3] }",
                "`tune.space.a.when.b` is 1; it must be one of 2, 3",
            ),
            (
                "\"a.b\" = { kind = \"categorical\", choices = [2, 3] }\na.b = { kind = \"float\" }",
                "`tune.space.a.b` is given twice",
            ),
        ] {
            let error = space(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}\n{error}\n{expected}");
        }
    }

    #[test]
    fn a_value_lies_in_the_middle_of_its_interval() {
        let space = space(ALL).expect("valid");
        let width = space.parameters.iter().find(|it| it.key == "width").expect("there");
        let (from, to) = width.interval(32.0).expect("steps");
        let (before, after) = (width.value(from + 1e-9), width.value(to - 1e-9));
        assert_eq!((before, after, width.value(from - 1e-9)), (32.0, 32.0, 16.0));
    }
}
