//! Encoding of a target's column, fitted on the training rows only.

use serde::{Deserialize, Serialize};
use updraft_data::Table;
use updraft_models::Head;

use super::loss::TargetLoss;
use super::target_plan::{MissingTarget, TargetKind, TargetPlan};
use crate::config::shortened;
use crate::error::RunError;

/// The largest scaled target, in standard deviations: sums of squares over any number of rows stay
/// finite in f32.
const FARTHEST: f64 = 1e14;

/// The encoding of a target; stored with the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum TargetCode {
    /// A number, standardized.
    Number { mean: f64, std: f64 },
    /// A class by its position.
    Classes { classes: Vec<String> },
    /// The same from the lowest to the highest.
    Ordered { classes: Vec<String> },
    /// Labels by their position, each with its threshold.
    Labels { labels: Vec<String>, thresholds: Vec<f32> },
}

/// The values of a target in every row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TargetValues {
    /// One class per row; `None` if it is missing.
    Classes(Vec<Option<u32>>),
    /// Standardized numbers; `None` if one is missing.
    Numbers(Vec<Option<f32>>),
    /// Zeros and ones, `labels` per row.
    Labels { labels: usize, values: Vec<f32> },
}

/// Finds where a row of the table comes from: its file and line.
pub(super) type PlaceOf<'a> = &'a dyn Fn(usize) -> String;

impl TargetCode {
    /// The classes or labels; none of a number.
    pub(super) fn words(&self) -> &[String] {
        match self {
            Self::Number { .. } => &[],
            Self::Classes { classes } | Self::Ordered { classes } => classes,
            Self::Labels { labels, .. } => labels,
        }
    }

    /// Fits the encoding of a target to the training rows.
    pub(super) fn fit(
        table: &Table,
        (column, plan): (&str, &TargetPlan),
        rows: &[usize],
        place: PlaceOf<'_>,
    ) -> Result<Self, RunError> {
        let code = match plan.kind {
            TargetKind::Number => Self::fit_number(table, column, rows)?,
            TargetKind::Classes => Self::Classes { classes: words(table, column, rows)? },
            TargetKind::Ordered => {
                let classes = match &plan.classes {
                    Some(classes) => classes.clone(),
                    None => in_order(words(table, column, rows)?, column)?,
                };
                Self::Ordered { classes }
            }
            TargetKind::Labels => {
                let mut labels: Vec<String> = Vec::new();
                for &row in rows {
                    labels.extend(table.labels(column, row)?.into_iter().map(str::to_owned));
                }
                labels.sort_unstable();
                labels.dedup();
                let thresholds = vec![0.5; labels.len()];
                Self::Labels { labels, thresholds }
            }
        };
        code.refuse_constant(table, column, rows, place)?;
        Ok(code)
    }

    fn fit_number(table: &Table, column: &str, rows: &[usize]) -> Result<Self, RunError> {
        let mut values = Vec::with_capacity(rows.len());
        for &row in rows {
            values.extend(table.number(column, row)?);
        }
        // Rounding would give equal numbers a deviation.
        if let Some(&only) = values.first()
            && values.iter().all(|value| *value == only)
        {
            return Ok(Self::Number { mean: only, std: 0.0 });
        }
        let count = values.len().max(1) as f64;
        let mean = values.iter().map(|value| value / count).sum::<f64>();
        let variance = values.iter().map(|value| (value - mean).powi(2) / count).sum::<f64>();
        Ok(Self::Number { mean, std: variance.sqrt() })
    }

    /// Returns an error for a target with a single value.
    fn refuse_constant(
        &self,
        table: &Table,
        column: &str,
        rows: &[usize],
        place: PlaceOf<'_>,
    ) -> Result<(), RunError> {
        let refuse = |what: String| {
            let reason = format!(
                "the target `{column}` {what}: nothing to learn; leave it out of `targets`, or name \
                 files in which it varies"
            );
            Err(RunError::Unusable { reason })
        };
        let refuse_single = |value: &str, is_there: &dyn Fn(usize) -> bool| {
            let first = rows.iter().find(|&&row| is_there(row));
            let first = first.map_or_else(String::new, |&row| place(row));
            refuse(format!(
                "is `{}` in every training row that has it, the first of which is {first}",
                shortened(value)
            ))
        };
        let missing = || refuse("is missing in every training row".to_owned());
        match self {
            Self::Number { std, .. } if !(*std > 0.0 && std.is_finite()) => {
                let number = |row| table.number(column, row).ok().flatten();
                match rows.iter().find_map(|&row| number(row)) {
                    Some(first) if *std == 0.0 => {
                        refuse_single(&first.to_string(), &|row| number(row).is_some())
                    }
                    Some(_) => Err(RunError::Unusable {
                        reason: format!(
                            "the values of the target `{column}` are too large to be scaled; change \
                             their unit"
                        ),
                    }),
                    None => missing(),
                }
            }
            Self::Classes { classes } | Self::Ordered { classes } if classes.len() < 2 => {
                let is_there = |row| table.word(column, row).is_ok_and(|word| word.is_some());
                classes.first().map_or_else(missing, |only| refuse_single(only, &is_there))
            }
            Self::Labels { labels, .. } if labels.is_empty() => {
                let first = rows.first().map_or_else(String::new, |&row| place(row));
                refuse(format!("has no label in any training row, the first of which is {first}"))
            }
            _ => Ok(()),
        }
    }

    /// The target's values in every row.
    ///
    /// # Errors
    /// [`RunError::Unusable`] with file and line for a value that is missing if the plan does not
    /// skip it, and for a class or a label that no training row has.
    pub(super) fn values(
        &self,
        table: &Table,
        (column, plan): (&str, &TargetPlan),
        place: PlaceOf<'_>,
    ) -> Result<TargetValues, RunError> {
        let rows = 0..table.rows();
        let refuse_missing = |row| match plan.missing {
            MissingTarget::Skip => Ok(None),
            MissingTarget::Refuse => Err(RunError::Unusable {
                reason: format!(
                    "{}, column `{column}`: the target is missing; leave the row out, or set \
                     `targets.{column}.missing` to \"skip\"",
                    place(row)
                ),
            }),
        };
        let refuse_unknown = |row, word: &str, known: &[String]| RunError::Unusable {
            reason: format!(
                "{}, column `{column}`: `{}` is not known from {}: correct it, {}, or read it as one \
                 of them with `data.replace`",
                place(row),
                shortened(word),
                match &plan.classes {
                    Some(_) => format!("`targets.{column}.classes`, which lists {}", listed(known)),
                    None => format!("the training rows, which have {}", listed(known)),
                },
                if plan.classes.is_some() { "list it" } else { "add training rows with it" }
            ),
        };
        match self {
            Self::Number { mean, std } => {
                let value = |row| match table.number(column, row)? {
                    None => refuse_missing(row),
                    Some(value) if ((value - mean) / std).abs() <= FARTHEST => {
                        Ok(Some(((value - mean) / std) as f32))
                    }
                    Some(value) => Err(RunError::Unusable {
                        reason: format!(
                            "{}, column `{column}`: {value:e} is more than {FARTHEST:e} standard \
                             deviations from the mean of the training rows; correct it",
                            place(row)
                        ),
                    }),
                };
                Ok(TargetValues::Numbers(rows.map(value).collect::<Result<_, _>>()?))
            }
            Self::Classes { classes } | Self::Ordered { classes } => {
                let class = |row| match table.word(column, row)? {
                    None => refuse_missing(row).map(|_| None),
                    Some(word) => match classes.iter().position(|class| class == word) {
                        Some(class) => Ok(Some(class as u32)),
                        None => Err(refuse_unknown(row, word, classes)),
                    },
                };
                Ok(TargetValues::Classes(rows.map(class).collect::<Result<_, _>>()?))
            }
            Self::Labels { labels, .. } => {
                let mut values = vec![0.0; labels.len() * table.rows()];
                for row in rows {
                    for label in table.labels(column, row)? {
                        let Ok(at) = labels.binary_search_by(|known| known.as_str().cmp(label))
                        else {
                            return Err(refuse_unknown(row, label, labels));
                        };
                        values[row * labels.len() + at] = 1.0;
                    }
                }
                Ok(TargetValues::Labels { labels: labels.len(), values })
            }
        }
    }

    /// The network's head for the target.
    pub(super) fn head(&self, loss: &TargetLoss) -> Head {
        match (self, loss) {
            (Self::Number { .. }, TargetLoss::Quantile { quantiles }) => {
                Head::Numbers(quantiles.len())
            }
            (Self::Number { .. }, _) => Head::Numbers(1),
            (Self::Ordered { classes }, TargetLoss::Ordinal) => Head::Ordered(classes.len()),
            (Self::Classes { classes } | Self::Ordered { classes }, _) => {
                Head::Classes(classes.len())
            }
            (Self::Labels { labels, .. }, _) => Head::Labels(labels.len()),
        }
    }

    /// What is wrong with a code of a file that may have been edited, for a target of this kind.
    pub(super) fn fault(&self, kind: TargetKind) -> Option<&'static str> {
        let is_list = |names: &[String], least| names.len() >= least;
        match (self, kind) {
            (Self::Number { mean, std }, TargetKind::Number) => {
                let is_scale = mean.is_finite() && std.is_finite() && *std > 0.0;
                (!is_scale).then_some("`mean` or `std` is not that of a number")
            }
            (Self::Classes { classes }, TargetKind::Classes)
            | (Self::Ordered { classes }, TargetKind::Ordered) => {
                (!is_list(classes, 2)).then_some("it has fewer than two classes")
            }
            (Self::Labels { labels, thresholds }, TargetKind::Labels) => {
                let is_share = |share: &f32| (0.0..=1.0).contains(share);
                let is_whole = is_list(labels, 1)
                    && labels.len() == thresholds.len()
                    && thresholds.iter().all(is_share);
                (!is_whole).then_some("it has no labels, or not a threshold from 0 to 1 for each")
            }
            _ => Some("it is of another kind than the plan's"),
        }
    }

    /// The difference to another run's encoding; decimals of a file may differ in the last digit.
    pub(super) fn difference(&self, other: &Self, column: &str) -> Option<String> {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
        let is_same = match (self, other) {
            (Self::Number { mean, std }, Self::Number { mean: other_mean, std: other_std }) => {
                near(*mean, *other_mean) && near(*std, *other_std)
            }
            (Self::Labels { labels, .. }, Self::Labels { labels: others, .. }) => labels == others,
            (own, other) => own == other,
        };
        (!is_same).then(|| format!("the training rows have other values of `{column}`"))
    }
}

impl TargetValues {
    /// The number of rows of each class among the given ones; empty for other kinds.
    pub(super) fn class_counts(&self, classes: usize, rows: &[usize]) -> Vec<u64> {
        let mut counts = vec![0; classes];
        if let Self::Classes(values) = self {
            for &row in rows {
                if let Some(class) = values[row] {
                    counts[class as usize] += 1;
                }
            }
        }
        counts
    }
}

/// The words of a column in the given rows, in alphabetical order.
fn words(table: &Table, column: &str, rows: &[usize]) -> Result<Vec<String>, RunError> {
    let mut found: Vec<&str> = Vec::new();
    for &row in rows {
        found.extend(table.word(column, row)?);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found.into_iter().map(str::to_owned).collect())
}

/// Classes that are numbers, from the lowest to the highest.
fn in_order(classes: Vec<String>, column: &str) -> Result<Vec<String>, RunError> {
    let number = |class: &String| class.parse::<f64>().ok().filter(|number| number.is_finite());
    let numbers: Option<Vec<f64>> = classes.iter().map(number).collect();
    let Some(numbers) = numbers else {
        let reason = format!(
            "the classes of the target `{column}` are {}, not numbers: name their order in \
             `targets.{column}.classes`",
            listed(&classes)
        );
        return Err(RunError::Unusable { reason });
    };
    let mut pairs: Vec<(f64, String)> = numbers.into_iter().zip(classes).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let Some(equal) = pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let (one, other) = (&equal[0].1, &equal[1].1);
        let reason = format!(
            "the classes `{one}` and `{other}` of the target `{column}` are the same number, as f64: \
             write them alike, read one as the other with `data.replace`, or name the order of all \
             classes in `targets.{column}.classes`"
        );
        return Err(RunError::Unusable { reason });
    }
    Ok(pairs.into_iter().map(|(_, class)| class).collect())
}

/// The first entries of a list, and the number of others.
pub(super) fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    let shown: Vec<String> = names.iter().take(MOST).map(|name| shortened(name)).collect();
    let shown = shown.join("`, `");
    match names.len().saturating_sub(MOST) {
        0 => format!("`{shown}`"),
        more => format!("`{shown}` and {more} more"),
    }
}
