//! Classes and labels that only rows have that a split holds out.

use std::collections::BTreeSet;

use updraft_data::Table;

use super::target_plan::{TargetKind, TargetPlan, TargetsPlan};
use crate::error::RunError;

/// Moves rows that have a class or a label which no kept row has from the held-out rows to the kept
/// ones: a network cannot predict it otherwise.
pub(super) fn keep_rare(
    truth: &Table,
    targets: &TargetsPlan,
    (mut kept, held_out): (Vec<usize>, Vec<usize>),
) -> Result<(Vec<usize>, Vec<usize>), RunError> {
    let mut is_moved = vec![false; held_out.len()];
    for (column, target) in &targets.targets {
        let mut known = BTreeSet::new();
        for &row in &kept {
            known.extend(words(truth, (column, target), row)?);
        }
        for (&row, is_moved) in held_out.iter().zip(&mut is_moved) {
            let own = words(truth, (column, target), row)?;
            if own.iter().any(|word| !known.contains(word)) {
                known.extend(own);
                *is_moved = true;
            }
        }
    }
    let (moved, held_out): (Vec<_>, Vec<_>) =
        held_out.into_iter().zip(is_moved).partition(|(_, is_moved)| *is_moved);
    if !moved.is_empty() {
        kept.extend(moved.into_iter().map(|(row, _)| row));
        kept.sort_unstable();
    }
    Ok((kept, held_out.into_iter().map(|(row, _)| row).collect()))
}

/// The class or the labels of a row; none for numbers, and where the configuration lists the classes.
fn words<'a>(
    truth: &'a Table,
    (column, target): (&str, &TargetPlan),
    row: usize,
) -> Result<Vec<&'a str>, RunError> {
    Ok(match target.kind {
        TargetKind::Number => Vec::new(),
        _ if target.classes.is_some() => Vec::new(),
        TargetKind::Classes | TargetKind::Ordered => truth.word(column, row)?.into_iter().collect(),
        TargetKind::Labels => truth.labels(column, row)?,
    })
}
