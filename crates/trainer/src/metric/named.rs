//! Numbers with name, unit and direction.

use std::borrow::Cow;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// Name, unit and direction of a metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// Lower-case words with `-` between them, such as `accuracy`.
    pub name: Cow<'static, str>,
    /// Its unit.
    pub unit: Unit,
    /// Whether more is better.
    pub direction: Direction,
    /// A longer name for display, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_name: Option<Cow<'static, str>>,
}

impl MetricSpec {
    /// A metric of this name.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, unit: Unit, direction: Direction) -> Self {
        Self { name: name.into(), unit, direction, long_name: None }
    }

    /// Sets a longer name for display.
    #[must_use]
    pub fn with_long_name(self, long_name: impl Into<Cow<'static, str>>) -> Self {
        Self { long_name: Some(long_name.into()), ..self }
    }

    /// The title of a plot: the longer name, or its name with spaces.
    #[must_use]
    pub fn title(&self) -> String {
        let name = self
            .long_name
            .as_ref()
            .map_or_else(|| self.name.replace('-', " "), |long| long.to_string());
        let mut letters = name.chars();
        let first = letters.next().map(|first| first.to_uppercase().to_string());
        first.unwrap_or_default() + letters.as_str()
    }
}

/// The unit of a metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A number without a unit.
    None,
    /// A fraction from 0 to 1, shown in per cent.
    Share,
    /// The named unit.
    Of(Cow<'static, str>),
}

/// Whether higher values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// As for an accuracy.
    HigherIsBetter,
    /// As for a loss.
    LowerIsBetter,
}

impl Direction {
    /// The improvement from `old` to `new`, in the metric's own unit; negative if it is worse.
    #[must_use]
    pub fn gain(self, new: f64, old: f64) -> f64 {
        match self {
            Self::HigherIsBetter => new - old,
            Self::LowerIsBetter => old - new,
        }
    }
}

/// A measured metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// What was measured.
    #[serde(flatten)]
    pub spec: MetricSpec,
    /// The value; `None` if it is not defined, such as a fraction of no samples.
    pub value: Option<f64>,
}

/// The metrics of a set of samples.
///
/// It serializes as one object: each metric's name with its value, and the number of `samples`.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The loss first, then its parts and the task's metrics.
    pub metrics: Vec<Metric>,
    /// Samples measured.
    pub samples: usize,
}

impl Evaluation {
    /// The value of a metric; `None` if there is no such metric or it is not defined.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|metric| metric.spec.name == name)?.value
    }

    /// The mean loss, in the unit of the task's loss.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.value("loss").unwrap_or(f64::NAN)
    }
}

impl Serialize for Evaluation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.metrics.len() + 1))?;
        for metric in &self.metrics {
            map.serialize_entry(&metric.spec.name, &metric.value)?;
        }
        map.serialize_entry("samples", &self.samples)?;
        map.end()
    }
}

/// Serializes metrics as one object: each name with its value.
pub(crate) fn as_map<S: Serializer>(metrics: &[Metric], serializer: S) -> Result<S::Ok, S::Error> {
    let pairs = metrics.iter().map(|metric| (&metric.spec.name, &metric.value));
    serializer.collect_map(pairs)
}

/// The form of an evaluation in a checkpoint.
pub(crate) mod stored {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Evaluation, Metric, MetricSpec};
    use crate::bits::Bits;

    /// Numbers are stored as bits, because JSON readers may round decimals.
    #[derive(Serialize, Deserialize)]
    struct Stored {
        metrics: Vec<(MetricSpec, Option<Bits>)>,
        samples: usize,
    }

    #[allow(clippy::ref_option, reason = "serde calls it with a reference")]
    pub(crate) fn serialize<S: Serializer>(
        evaluation: &Option<Evaluation>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bits = |metric: Metric| (metric.spec, metric.value.map(Bits::of));
        let stored = evaluation.clone().map(|Evaluation { metrics, samples }| Stored {
            metrics: metrics.into_iter().map(bits).collect(),
            samples,
        });
        stored.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Evaluation>, D::Error> {
        let metric =
            |(spec, bits): (_, Option<Bits>)| Metric { spec, value: bits.map(Bits::number) };
        let stored = Option::<Stored>::deserialize(deserializer)?;
        Ok(stored.map(|Stored { metrics, samples }| Evaluation {
            metrics: metrics.into_iter().map(metric).collect(),
            samples,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_long_name_else_the_name_in_words() {
        let spec = MetricSpec::new("samples-f1", Unit::Share, Direction::HigherIsBetter);
        assert_eq!(spec.title(), "Samples f1");
        assert_eq!(spec.with_long_name("mean F1 of the samples").title(), "Mean F1 of the samples");
    }
}
