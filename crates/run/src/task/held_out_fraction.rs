//! The message about a held-out fraction that differs from the requested one.

use updraft_data::Split;

/// A message if the held-out fraction differs much from the requested one, with the reason.
pub(super) fn fraction_message(
    asked: f64,
    split: &Split,
    samples: &str,
    why: &str,
) -> Option<String> {
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
    fn a_share_far_from_the_one_asked_for_is_said() {
        let split = |held_out: usize| Split {
            kept: (held_out..200).collect(),
            held_out: (0..held_out).collect(),
        };
        assert_eq!(fraction_message(0.2, &split(40), "rows", "why"), None);
        assert_eq!(fraction_message(0.2, &split(50), "rows", "why"), None);
        let said = fraction_message(0.001, &split(10), "rows", "each class has one").expect("far");
        assert_eq!(said, "the test data is 5.0 % of the rows, not 0.1 %: each class has one");
    }
}
