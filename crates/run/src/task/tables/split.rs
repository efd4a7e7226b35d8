//! Training, validation and test rows.

use std::collections::BTreeMap;

use updraft_data::{Table, stratified_parts, stratified_split};

use super::data_plan::DataPlan;
use super::source_plan::{Source, TestPart, TestRows};
use super::strata::strata;
use super::target_plan::{TargetKind, TargetsPlan};
use crate::error::RunError;
use crate::task::held_out_fraction::fraction_message;

/// Makes the validation rows independent of the test rows.
const VALIDATION_SEED: u64 = 1 << 62;

/// The rows that are learned from, those on which thresholds are found, and those tested on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) train: Vec<usize>,
    pub(super) validation: Vec<usize>,
    pub(super) test: Vec<usize>,
}

impl Split {
    /// Divides the rows of a table, whose first `training` rows are not from test files.
    pub(super) fn of(
        plan: &DataPlan,
        targets: &TargetsPlan,
        (truth, training): (&Table, usize),
        seed: u64,
        notes: &mut Vec<String>,
    ) -> Result<Self, RunError> {
        let (kept, test) = match &plan.source {
            Source::Files(files) => match &files.test {
                TestRows::Part { part, stratify, group } => {
                    let strata = strata(truth, stratify, targets, part.fraction())?;
                    let groups = group.as_ref().map(|group| groups(truth, group)).transpose()?;
                    held_out(&strata, groups.as_deref(), *part, seed, notes)?
                }
                TestRows::Files(_) => ((0..training).collect(), (training..truth.rows()).collect()),
            },
            Source::Generated { .. } => {
                ((0..training).collect(), (training..truth.rows()).collect())
            }
        };
        let fraction = plan.validation_fraction;
        let labels = targets.targets.iter().find(|(_, plan)| plan.kind == TargetKind::Labels);
        let (Some((labels, _)), true) = (labels, fraction > 0.0) else {
            return Ok(Self { train: kept, validation: Vec::new(), test });
        };
        let of_kept = |all: Vec<usize>| kept.iter().map(|&row| all[row]).collect::<Vec<_>>();
        let strata = of_kept(strata(truth, labels, targets, fraction)?);
        let groups = plan.source.group().map(|group| groups(truth, group)).transpose()?;
        let groups = groups.map(of_kept);
        let seed = seed ^ VALIDATION_SEED;
        let (train, validation) =
            held_out(&strata, groups.as_deref(), TestPart::Share(fraction), seed, &mut Vec::new())?;
        if validation.is_empty() {
            let reason = format!(
                "`data.validation_fraction` {fraction} of {} training rows is none: raise it",
                kept.len()
            );
            return Err(RunError::Unusable { reason });
        }
        let rows = |of: Vec<usize>| of.into_iter().map(|at| kept[at]).collect();
        Ok(Self { train: rows(train), validation: rows(validation), test })
    }
}

/// The samples that are kept and those of the part.
fn held_out(
    strata: &[usize],
    groups: Option<&[usize]>,
    part: TestPart,
    seed: u64,
    notes: &mut Vec<String>,
) -> Result<(Vec<usize>, Vec<usize>), RunError> {
    let (shares, own) = match (part, groups) {
        (TestPart::Share(fraction), None) => {
            let split = stratified_split(strata, fraction, seed)?;
            let why = "each class keeps a row on both sides";
            notes.extend(fraction_message(fraction, &split, "rows", why));
            return Ok((split.kept, split.held_out));
        }
        (TestPart::Share(fraction), Some(_)) => (vec![1.0 - fraction, fraction], 1),
        (TestPart::Fold { fold, folds }, _) => (vec![1.0; folds], fold),
    };
    let parts = stratified_parts(strata, groups, &shares, seed)?;
    let (mut kept, mut held_out) = (Vec::new(), Vec::new());
    for (row, part) in parts.into_iter().enumerate() {
        if part == own { held_out.push(row) } else { kept.push(row) }
    }
    Ok((kept, held_out))
}

/// The group of each row; a row without a value is a group of its own.
fn groups(truth: &Table, column: &str) -> Result<Vec<usize>, RunError> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups = Vec::with_capacity(truth.rows());
    for row in 0..truth.rows() {
        groups.push(match truth.word(column, row)? {
            // Rows are numbered from 0, so these are no row's own.
            Some(word) => {
                let next = truth.rows() + places.len();
                *places.entry(word).or_insert(next)
            }
            None => row,
        });
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use updraft_data::{Delimiter, TableSchema};

    use super::*;

    #[test]
    fn equal_words_are_a_group_and_missing_ones_are_alone() {
        let schema = TableSchema::new().category("patient");
        let text = "patient,x\na,1\n?,1\nb,1\na,1\n,1\n";
        let table = Table::parse(text.as_bytes(), "inline.csv", Delimiter::Comma, schema);
        let groups = groups(&table.expect("a table"), "patient").expect("words");
        assert_eq!(groups[0], groups[3]);
        let distinct: std::collections::BTreeSet<usize> = groups.into_iter().collect();
        assert_eq!(distinct.len(), 4);
    }

    #[test]
    fn every_row_is_tested_in_one_fold() {
        let strata: Vec<usize> = (0..50).map(|row| row % 3).collect();
        let fold = |fold| {
            let part = TestPart::Fold { fold, folds: 5 };
            held_out(&strata, None, part, 9, &mut Vec::new()).expect("divided")
        };
        let mut tested: Vec<usize> = (0..5).flat_map(|at| fold(at).1).collect();
        tested.sort_unstable();
        assert_eq!(tested, (0..50).collect::<Vec<_>>());
        assert_eq!(fold(0).0.len() + fold(0).1.len(), 50);
    }
}
