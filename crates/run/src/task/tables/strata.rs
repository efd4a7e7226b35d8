//! The strata of rows, from each of which the same fraction is held out.

use std::collections::BTreeMap;

use updraft_data::Table;

use super::target_plan::{TargetKind, TargetsPlan};
use crate::error::RunError;

/// Number of strata of a number, if each of them has at least one held-out row.
const STRATA: usize = 10;

/// The stratum of each row: its class, its labels, or the decile of its number.
pub(super) fn strata(
    truth: &Table,
    column: &str,
    targets: &TargetsPlan,
    fraction: f64,
) -> Result<Vec<usize>, RunError> {
    match targets.targets.get(column).map(|target| target.kind) {
        Some(TargetKind::Classes | TargetKind::Ordered) => Ok(truth.strata(column)?),
        Some(TargetKind::Labels) => {
            let mut seen = BTreeMap::new();
            let stratum = |row| {
                let mut labels = truth.labels(column, row)?;
                labels.sort_unstable();
                let next = seen.len();
                Ok(*seen.entry(labels).or_insert(next))
            };
            (0..truth.rows()).map(stratum).collect()
        }
        _ => {
            let value = |row| Ok(truth.number(column, row)?.unwrap_or(f64::NAN));
            let values: Vec<f64> = (0..truth.rows()).map(value).collect::<Result<_, RunError>>()?;
            Ok(tenths(&values, fraction))
        }
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
    fn equal_values_lie_in_one_stratum_and_strata_are_alike_in_size() {
        let values: Vec<f64> = (0..200).map(|at| f64::from(at * 37 % 200)).collect();
        let found = tenths(&values, 0.2);
        for stratum in 0..STRATA {
            assert_eq!(found.iter().filter(|&&other| other == stratum).count(), 20);
        }
        let few = tenths(&[3.0, 8.0, 3.0, 3.0], 1.0);
        assert!(few[0] == few[2] && few[2] == few[3] && few[0] < few[1], "{few:?}");
        assert_eq!(tenths(&[1.0, 2.0, 3.0], 0.1), [0, 0, 0]);
    }
}
