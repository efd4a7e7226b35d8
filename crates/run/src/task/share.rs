//! Stratified holdout by the value of a number, and the message about a different fraction.

use updraft_data::Split;

/// Number of strata of a number, if each of them has at least one held-out row.
const STRATA: usize = 10;

/// The stratum of each value: a decile of the sorted values, or a larger part if fewer than ten
/// rows are held out. Equal values are in the same stratum.
pub(super) fn tenths(values: &[f64], held_out: f64) -> Vec<usize> {
    let wanted = (values.len() as f64 * held_out).round() as usize;
    let count = wanted.clamp(1, STRATA);
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let bounds = (1..count).filter_map(|part| sorted.get(part * sorted.len() / count));
    let bounds: Vec<f64> = bounds.copied().collect();
    values.iter().map(|value| bounds.partition_point(|bound| bound <= value)).collect()
}

/// A message if the held-out fraction differs much from the requested one, with the reason.
pub(super) fn other_share(asked: f64, split: &Split, samples: &str, why: &str) -> Option<String> {
    let held_out = split.held_out.len();
    let share = held_out as f64 / (held_out + split.kept.len()).max(1) as f64;
    let is_far = (share - asked).abs() > 0.5 * asked;
    is_far.then(|| {
        format!(
            "the test data is {:.1} % of the {samples}, not {:.1} %: {why}",
            100.0 * share,
            100.0 * asked
        )
    })
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

    #[test]
    fn a_share_far_from_the_one_asked_for_is_said() {
        let split = |held_out: usize| Split {
            kept: (held_out..200).collect(),
            held_out: (0..held_out).collect(),
        };
        assert_eq!(other_share(0.2, &split(40), "rows", "why"), None);
        assert_eq!(other_share(0.2, &split(50), "rows", "why"), None);
        let said = other_share(0.001, &split(10), "rows", "each class has one").expect("far");
        assert_eq!(said, "the test data is 5.0 % of the rows, not 0.1 %: each class has one");
    }
}
