//! The strata of rows, from each of which the same fraction is held out.

use std::collections::{BTreeMap, BTreeSet};

use updraft_data::Table;

use super::source_plan::TestPart;
use super::target_plan::{TargetKind, TargetsPlan};
use crate::error::RunError;

/// Number of strata of a number, if each of them has at least one held-out row.
const STRATA: usize = 10;

/// The stratum of each of some rows: its class, its set of labels, or the decile of its number.
///
/// `groups` has the group of each of these rows, all of which are on one side of the split.
/// If a fraction is held out, the strata whose fraction is less than a row or a group are one
/// stratum: separately, none of them would be held out. A class of rows without groups is always
/// its own stratum, because each class has a row on both sides. Folds take the rows of any stratum
/// in turn.
pub(super) fn strata(
    (truth, rows): (&Table, &[usize]),
    (column, targets): (&str, &TargetsPlan),
    groups: Option<&[usize]>,
    part: TestPart,
) -> Result<Vec<usize>, RunError> {
    let kind = targets.targets.get(column).map(|target| target.kind);
    let mut strata = match kind {
        Some(TargetKind::Classes | TargetKind::Ordered) => {
            let all = truth.strata(column)?;
            rows.iter().map(|&row| all[row]).collect()
        }
        Some(TargetKind::Labels) => label_sets(truth, rows, column)?,
        _ => {
            let value = |&row| Ok(truth.number(column, row)?.unwrap_or(f64::NAN));
            let values: Vec<f64> = rows.iter().map(value).collect::<Result<_, RunError>>()?;
            tenths(&values, part.fraction())
        }
    };
    let TestPart::Share(fraction) = part else { return Ok(strata) };
    match (kind, groups) {
        (Some(TargetKind::Labels), _) => merge_small(&mut strata, groups, 1.0 / fraction),
        // The fewest of which one is nearer to the fraction than none.
        (_, Some(_)) => merge_small(&mut strata, groups, 0.5 / fraction),
        (_, None) => {}
    }
    Ok(strata)
}

/// A stratum for each set of labels.
fn label_sets(truth: &Table, rows: &[usize], column: &str) -> Result<Vec<usize>, RunError> {
    let mut seen = BTreeMap::new();
    let stratum = |&row| {
        let mut labels = truth.labels(column, row)?;
        labels.sort_unstable();
        labels.dedup();
        let next = seen.len();
        Ok(*seen.entry(labels).or_insert(next))
    };
    rows.iter().map(stratum).collect()
}

/// Makes one stratum of all those with fewer than `least` rows, or groups of rows.
fn merge_small(strata: &mut [usize], groups: Option<&[usize]>, least: f64) {
    let mut members: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (at, &stratum) in strata.iter().enumerate() {
        let group = groups.map_or(at, |groups| groups[at]);
        members.entry(stratum).or_default().insert(group);
    }
    let is_small = |stratum: &usize| (members[stratum].len() as f64) < least;
    let Some(merged) = strata.iter().copied().find(is_small) else { return };
    for stratum in strata.iter_mut().filter(|stratum| is_small(stratum)) {
        *stratum = merged;
    }
}

/// The stratum of each value: a decile of the sorted values, or a larger part if fewer than ten
/// rows are held out. Equal values are in the same stratum.
fn tenths(values: &[f64], held_out: f64) -> Vec<usize> {
    let wanted = (values.len() as f64 * held_out).round() as usize;
    let count = wanted.clamp(1, STRATA);
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let bounds = (1..count).filter_map(|part| sorted.get(part * sorted.len() / count));
    let bounds: Vec<f64> = bounds.copied().collect();
    values.iter().map(|value| bounds.partition_point(|bound| bound <= value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_lie_in_one_stratum_and_strata_have_similar_sizes() {
        let values: Vec<f64> = (0..200).map(|at| f64::from(at * 37 % 200)).collect();
        let found = tenths(&values, 0.2);
        for stratum in 0..STRATA {
            assert_eq!(found.iter().filter(|&&other| other == stratum).count(), 20);
        }
        let few = tenths(&[3.0, 8.0, 3.0, 3.0], 1.0);
        assert!(few[0] == few[2] && few[2] == few[3] && few[0] < few[1], "{few:?}");
        assert_eq!(tenths(&[1.0, 2.0, 3.0], 0.1), [0, 0, 0]);
    }

    #[test]
    fn strata_of_few_rows_or_groups_are_one() {
        let own = [0, 1, 0, 2, 0, 3, 3];
        let merged = |groups: Option<&[usize]>, least| {
            let mut strata = own.to_vec();
            merge_small(&mut strata, groups, least);
            strata
        };
        assert_eq!(merged(None, 1.0), own);
        assert_eq!(merged(None, 2.0), [0, 1, 0, 1, 0, 3, 3]);
        assert_eq!(merged(None, 2.5), [0, 1, 0, 1, 0, 1, 1]);
        // Stratum 3 is of one group.
        assert_eq!(merged(Some(&[0, 1, 2, 3, 4, 5, 5]), 2.0), [0, 1, 0, 1, 0, 1, 1]);
    }
}
