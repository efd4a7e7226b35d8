//! The keys of `targets`: the columns to predict, their kinds and losses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::loss::TargetLoss;
use super::weighting::{EVERY, PULL, RATE, WEIGHTING, Weighting};
use crate::config::{ABOVE_0_IN_F32, ConfigError, Key, Keys, Settings, is_above_0_in_f32};

const TARGETS: Key<BTreeMap<String, TargetPlan>> = Key::new(
    "targets",
    "the columns to predict: the name of each is a key, with a table such as `{ kind = \"classes\" }`",
)
.depends("`effect` and `symptoms` of generated rows, `labels` of labels, `y` of a formula")
.with(&[
    ("COLUMN.kind", "–", "`number`, `classes`, `ordered` (classes in an order) or `labels` (any number of them)"),
    (
        "COLUMN.loss",
        "`mean-squared-error`, `cross-entropy`, `ordinal` or `binary-cross-entropy`, by `kind`",
        "or `mean-absolute-error`, `huber` with `delta`, `quantile` with `quantiles` for numbers; `focal` with `gamma` for classes, which like `cross-entropy` with `label_smoothing` takes `class_weights = \"balanced\"`; `asymmetric` with `positive_focus`, `negative_focus` and `margin` for labels",
    ),
    ("COLUMN.weight", "1", "what its loss is multiplied by, above 0"),
    ("COLUMN.missing", "`refuse`", "what a row without a value is: an error, or with `skip` a row that this target does not learn from and is not scored on"),
    ("COLUMN.classes", "the numbers of the training rows", "ordered only: the classes from the lowest to the highest"),
    ("COLUMN.separator", "`\\|`", "labels only: the character between two labels of a field"),
])
.check("a table of at least one column", |targets| !targets.is_empty());

/// The keys of the targets.
pub(super) const KEYS: Keys = &[&TARGETS, &WEIGHTING, &PULL, &RATE, &EVERY];

/// What a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TargetKind {
    /// A number.
    Number,
    /// One of several classes.
    Classes,
    /// One of several classes that have an order.
    Ordered,
    /// Any number of labels.
    Labels,
}

/// The policy for rows without a value of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MissingTarget {
    /// It is an error.
    #[default]
    Refuse,
    /// The row is ignored in the target's loss and metrics.
    Skip,
}

/// A column to predict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenTarget", into = "WrittenTarget")]
pub(super) struct TargetPlan {
    pub(super) kind: TargetKind,
    pub(super) loss: TargetLoss,
    pub(super) weight: f64,
    pub(super) missing: MissingTarget,
    /// Of ordered classes.
    pub(super) classes: Option<Vec<String>>,
    /// Of labels.
    pub(super) separator: Option<char>,
}

/// The same as in a configuration, where the loss is optional.
#[derive(Serialize, Deserialize)]
#[serde(rename = "TargetPlan", deny_unknown_fields)]
struct WrittenTarget {
    kind: TargetKind,
    #[serde(default = "one")]
    weight: f64,
    #[serde(default)]
    missing: MissingTarget,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    classes: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    separator: Option<char>,
    loss: Option<TargetLoss>,
}

fn one() -> f64 {
    1.0
}

impl From<WrittenTarget> for TargetPlan {
    fn from(written: WrittenTarget) -> Self {
        let WrittenTarget { kind, weight, missing, classes, separator, loss } = written;
        let standard = (kind == TargetKind::Labels).then_some('|');
        let loss = loss.unwrap_or(TargetLoss::of(kind));
        Self { kind, loss, weight, missing, classes, separator: separator.or(standard) }
    }
}

impl From<TargetPlan> for WrittenTarget {
    fn from(plan: TargetPlan) -> Self {
        let TargetPlan { kind, loss, weight, missing, classes, separator } = plan;
        Self { kind, weight, missing, classes, separator, loss: Some(loss) }
    }
}

/// All targets of a plan, by name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TargetsPlan {
    pub(super) targets: BTreeMap<String, TargetPlan>,
    pub(super) weighting: Weighting,
}

impl TargetsPlan {
    /// Reads the targets; `standard` are those of generated rows.
    pub(super) fn read(
        settings: &Settings,
        standard: Option<&[(&str, TargetKind)]>,
    ) -> Result<Self, ConfigError> {
        let targets = match standard {
            Some(columns) => settings.value_or(&TARGETS, || of_kinds(columns))?,
            None => settings.required(&TARGETS, "`data.source = \"files\"`")?,
        };
        let mut names: BTreeMap<String, &String> = BTreeMap::new();
        for (column, target) in &targets {
            target.check(settings, column)?;
            let name = metric_name(column);
            if name.is_empty() || names.contains_key(&name) {
                let expected = "a table of columns whose names differ in letters or digits: \
                                metrics are named after them";
                return Err(settings.refuse(&format!("targets.{column}"), "given", expected));
            }
            names.insert(name, column);
        }
        Ok(Self { weighting: Weighting::read(settings, targets.len())?, targets })
    }
}

impl TargetPlan {
    fn check(&self, settings: &Settings, column: &str) -> Result<(), ConfigError> {
        let key = |inner: &str| format!("targets.{column}.{inner}");
        if !is_above_0_in_f32(&self.weight) {
            return Err(settings.refuse(&key("weight"), self.weight, ABOVE_0_IN_F32));
        }
        if let Some(fault) = self.loss.fault(self.kind) {
            return Err(settings.refuse_given(&key("loss"), fault));
        }
        let of_other = |is_other: bool, inner: &str, kind: &str| match is_other {
            true => Err(settings.refuse_given(&key(inner), kind)),
            false => Ok(()),
        };
        let (is_ordered, is_labels) =
            (self.kind == TargetKind::Ordered, self.kind == TargetKind::Labels);
        of_other(
            !is_ordered && self.classes.is_some(),
            "classes",
            "left out: only a target of the kind `ordered` has an order of classes",
        )?;
        of_other(
            !is_labels && self.separator.is_some(),
            "separator",
            "left out: only a target of the kind `labels` has several in a field",
        )?;
        of_other(
            is_labels && self.missing == MissingTarget::Skip,
            "missing",
            "left out: a row without labels has none of them",
        )?;
        let is_list = |classes: &Vec<String>| {
            classes.len() > 1
                && classes.iter().enumerate().all(|(at, one)| !classes[..at].contains(one))
        };
        of_other(
            self.classes.as_ref().is_some_and(|classes| !is_list(classes)),
            "classes",
            "a list of at least two classes, none of them twice",
        )
    }
}

/// The prefix of a target's metrics: its name in lower case, with `-` instead of other characters
/// than letters and digits.
pub(super) fn metric_name(column: &str) -> String {
    let words = column.split(|letter: char| !letter.is_alphanumeric());
    let words: Vec<String> = words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    words.join("-")
}

/// Targets of these kinds, with the default of every other key.
fn of_kinds(columns: &[(&str, TargetKind)]) -> BTreeMap<String, TargetPlan> {
    let target = |kind| WrittenTarget {
        kind,
        weight: 1.0,
        missing: MissingTarget::Refuse,
        classes: None,
        separator: None,
        loss: None,
    };
    columns.iter().map(|&(name, kind)| (name.to_owned(), target(kind).into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_named_after_the_words_of_a_column() {
        assert_eq!(metric_name("Hours per-Week (h)"), "hours-per-week-h");
        assert_eq!(metric_name("pH"), "ph");
        assert_eq!(metric_name("—"), "");
    }
}
