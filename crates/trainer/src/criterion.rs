//! The metric that compares epochs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::TrainError;
use crate::events::EpochReport;
use crate::metric::{Direction, MetricSpec};

/// The metric that compares epochs, `SPLIT-METRIC`: `test-loss`, `test-accuracy`, `train-loss` and
/// so on, for every metric of the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Criterion {
    /// The samples it is measured on.
    pub split: Split,
    /// The metric's name.
    pub metric: String,
}

/// The samples that a metric is measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// The training data, each sample before its update.
    Train,
    /// The test data.
    Test,
}

/// The loss on the test data.
impl Default for Criterion {
    fn default() -> Self {
        Self { split: Split::Test, metric: "loss".to_owned() }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Test => "test",
        })
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.split, self.metric)
    }
}

/// A text that is not a criterion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a metric; expected `train-` or `test-` and a metric, as in `test-loss`")]
pub struct CriterionError {
    text: String,
}

impl FromStr for Criterion {
    type Err = CriterionError;

    fn from_str(text: &str) -> Result<Self, CriterionError> {
        let split = match text.split_once('-') {
            Some(("train", metric)) if !metric.is_empty() => Some((Split::Train, metric)),
            Some(("test", metric)) if !metric.is_empty() => Some((Split::Test, metric)),
            _ => None,
        };
        let (split, metric) = split.ok_or_else(|| CriterionError { text: text.to_owned() })?;
        Ok(Self { split, metric: metric.to_owned() })
    }
}

impl Serialize for Criterion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Criterion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Criterion {
    /// The direction of the metric in a task with these metrics.
    ///
    /// # Errors
    /// [`TrainError::Setting`], which lists the metrics, if it is none of them.
    pub fn direction(&self, metrics: &[MetricSpec]) -> Result<Direction, TrainError> {
        self.direction_of("criterion", metrics)
    }

    /// As [`direction`](Self::direction), where another setting has the criterion.
    pub(crate) fn direction_of(
        &self,
        setting: &'static str,
        metrics: &[MetricSpec],
    ) -> Result<Direction, TrainError> {
        if let Some(found) = metrics.iter().find(|spec| spec.name == self.metric) {
            return Ok(found.direction);
        }
        let splits = [Split::Test, Split::Train];
        let known = splits
            .iter()
            .flat_map(|split| metrics.iter().map(move |spec| format!("`{split}-{}`", spec.name)));
        let expected = format!("one of {}", known.collect::<Vec<_>>().join(", "));
        Err(TrainError::setting(setting, format!("`{self}`"), expected))
    }

    /// The value in an epoch; `None` if it was not measured or is not defined.
    #[must_use]
    pub fn value(&self, report: &EpochReport) -> Option<f64> {
        match self.split {
            Split::Train => report.train.value(&self.metric),
            Split::Test => report.test.as_ref()?.value(&self.metric),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Unit;

    #[test]
    fn a_criterion_reads_the_text_that_it_prints() {
        for text in ["test-accuracy", "train-loss", "test-loss-reconstruction"] {
            assert_eq!(text.parse::<Criterion>().expect("a criterion").to_string(), text);
        }
        for text in ["accuracy", "valid-loss", "test-", "test"] {
            assert!(text.parse::<Criterion>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_metric_that_the_task_lacks_is_refused_with_those_it_has() {
        let specs = [MetricSpec::new("loss", Unit::None, Direction::LowerIsBetter)];
        let criterion: Criterion = "test-dice".parse().expect("a criterion");
        let said = criterion.direction(&specs).expect_err("unknown").to_string();
        assert_eq!(said, "`criterion` is `test-dice`; it must be one of `test-loss`, `train-loss`");
    }
}
