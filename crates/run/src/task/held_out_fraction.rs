//! The message about a held-out fraction that differs from the requested one.

/// The fraction that a key sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldOutFraction {
    pub(super) key: &'static str,
    /// What is held out, such as `test data`.
    pub(super) part: &'static str,
    pub(super) fraction: f64,
}

impl HeldOutFraction {
    /// A message if the held-out fraction of all samples differs much from the requested one, with
    /// the reason.
    pub(super) fn message(
        self,
        [held_out, kept]: [usize; 2],
        samples: &str,
        why: &str,
    ) -> Option<String> {
        let Self { key, part, fraction } = self;
        let share = held_out as f64 / (held_out + kept).max(1) as f64;
        let is_far = (share - fraction).abs() > 0.5 * fraction;
        is_far.then(|| {
            format!(
                "the {part} is {:.1} % of the {samples}, not {:.1} % as `{key}` sets: {why}",
                100.0 * share,
                100.0 * fraction
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_far_from_the_one_asked_for_is_said_with_its_key() {
        let said = |fraction, held_out: usize| {
            let asked = HeldOutFraction { key: "data.test_fraction", part: "test data", fraction };
            asked.message([held_out, 200 - held_out], "rows", "each class has one")
        };
        assert_eq!(said(0.2, 40), None);
        assert_eq!(said(0.2, 50), None);
        let expected = "the test data is 5.0 % of the rows, not 0.1 % as `data.test_fraction` \
                        sets: each class has one";
        assert_eq!(said(0.001, 10).as_deref(), Some(expected));
    }
}
