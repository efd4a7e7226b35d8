//! Comparing sequences of numbers, with a message about the first difference.

use crate::Tolerance;

/// Anything that can be read as a sequence of f64.
pub trait Numbers {
    /// The values in order, widened to f64.
    fn numbers(&self) -> Vec<f64>;
}

/// Asserts that two sequences have one length and agree entry by entry.
///
/// # Panics
/// If the lengths differ, or an entry of `actual` differs from `expected` by more than `tolerance`
/// allows; the message names the worst entry and how many there are.
///
/// # Example
/// ```
/// use updraft_testing::{assert_close, tolerance};
/// assert_close(&[0.1_f32 + 0.2], &[0.3_f32], tolerance::F32);
/// ```
#[track_caller]
pub fn assert_close<A, B>(actual: &A, expected: &B, tolerance: Tolerance)
where
    A: Numbers + ?Sized,
    B: Numbers + ?Sized,
{
    let (actual, expected) = (actual.numbers(), expected.numbers());
    if let Some(message) = difference(&actual, &expected, tolerance) {
        panic!("{message}");
    }
}

/// Asserts that two sequences are close relative to the largest expected value, or to 1 if all are
/// smaller: for sums, whose rounding errors grow with their terms.
///
/// # Panics
/// As [`assert_close`].
#[track_caller]
pub fn assert_close_to_largest<A, B>(actual: &A, expected: &B, tolerance: Tolerance)
where
    A: Numbers + ?Sized,
    B: Numbers + ?Sized,
{
    let (actual, expected) = (actual.numbers(), expected.numbers());
    let most = expected.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
    let share = |values: Vec<f64>| values.into_iter().map(|v| v / most).collect::<Vec<_>>();
    assert_close(&share(actual), &share(expected), tolerance);
}

/// The largest difference of two sequences, relative to the largest finite expected value, or to 1
/// if all are smaller. NaN and infinities have to be equal; the error of others is infinite.
///
/// # Panics
/// If the lengths differ.
#[must_use]
#[track_caller]
pub fn relative_error<A, B>(actual: &A, expected: &B) -> f64
where
    A: Numbers + ?Sized,
    B: Numbers + ?Sized,
{
    let (actual, expected) = (actual.numbers(), expected.numbers());
    assert_eq!(actual.len(), expected.len(), "the sequences differ in length");
    let finite = expected.iter().filter(|value| value.is_finite());
    let scale = finite.fold(1.0_f64, |most, value| most.max(value.abs()));
    let errors = actual.iter().zip(&expected).map(|(actual, expected)| {
        match (actual.is_nan(), expected.is_nan()) {
            (true, true) => 0.0,
            (false, false) if actual == expected => 0.0,
            (false, false) => (actual - expected).abs() / scale,
            _ => f64::INFINITY,
        }
    });
    errors.fold(0.0, f64::max)
}

/// The difference between two sequences, or `None` if they are close.
pub(crate) fn difference(actual: &[f64], expected: &[f64], tolerance: Tolerance) -> Option<String> {
    if actual.len() != expected.len() {
        return Some(format!("expected {} values, got {}", expected.len(), actual.len()));
    }
    let far: Vec<usize> =
        (0..actual.len()).filter(|&i| !tolerance.allows(actual[i], expected[i])).collect();
    // NaN counts as the worst: `total_cmp` puts it above infinity.
    let excess = |i: usize| ((actual[i] - expected[i]).abs()) / tolerance.bound(expected[i]);
    let worst = *far.iter().max_by(|&&a, &&b| excess(a).total_cmp(&excess(b)))?;
    Some(format!(
        "{} of {} values are too far apart; worst at index {worst}: expected {} got {}, distance {:e}, allowed {:e}",
        far.len(),
        actual.len(),
        expected[worst],
        actual[worst],
        (actual[worst] - expected[worst]).abs(),
        tolerance.bound(expected[worst]),
    ))
}

impl Numbers for f64 {
    fn numbers(&self) -> Vec<f64> {
        vec![*self]
    }
}

impl Numbers for f32 {
    fn numbers(&self) -> Vec<f64> {
        vec![f64::from(*self)]
    }
}

impl<N: Numbers> Numbers for [N] {
    fn numbers(&self) -> Vec<f64> {
        self.iter().flat_map(Numbers::numbers).collect()
    }
}

impl<N: Numbers, const LENGTH: usize> Numbers for [N; LENGTH] {
    fn numbers(&self) -> Vec<f64> {
        self.as_slice().numbers()
    }
}

impl<N: Numbers> Numbers for Vec<N> {
    fn numbers(&self) -> Vec<f64> {
        self.as_slice().numbers()
    }
}

#[cfg(feature = "burn")]
impl<const D: usize> Numbers for burn::tensor::Tensor<D> {
    fn numbers(&self) -> Vec<f64> {
        self.try_to_vec_as::<f64>().expect("a float tensor can be read as f64")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tolerance;

    #[test]
    fn close_sequences_pass_whatever_holds_them() {
        assert_close(&vec![1.0_f32, 2.0], &[1.0_f64, 2.0 + 1e-6], tolerance::F32);
        assert_close(&[[1.0_f64, 2.0], [3.0, 4.0]], &[1.0_f64, 2.0, 3.0, 4.0], tolerance::EXACT);
    }

    #[test]
    fn errors_are_relative_to_the_largest_value_and_what_is_not_finite_is_equal() {
        let nan = f64::NAN;
        assert_close_to_largest(&[1e6_f64 + 0.5, 0.5], &[1e6_f64, 0.0], tolerance::F32);
        assert_eq!(relative_error(&[0.5_f64], &[0.25_f64]), 0.25);
        assert_eq!(relative_error(&[3.0_f64, 8.0, nan], &[2.0_f64, 8.0, nan]), 0.125);
        assert_eq!(relative_error(&[f32::INFINITY], &[f64::INFINITY]), 0.0);
        for (actual, expected) in
            [(nan, 1.0), (1.0, nan), (f64::INFINITY, 1.0), (f64::INFINITY, f64::NEG_INFINITY)]
        {
            assert_eq!(relative_error(&[actual], &[expected]), f64::INFINITY);
        }
    }

    #[test]
    #[should_panic(expected = "too far apart")]
    fn what_is_far_from_the_largest_value_is_refused() {
        assert_close_to_largest(&[1e3_f64, 0.1], &[1e3_f64, 0.0], tolerance::F32);
    }

    #[test]
    #[should_panic(expected = "expected 2 values, got 1")]
    fn another_length_is_refused() {
        assert_close(&[1.0_f64], &[1.0_f64, 2.0], tolerance::F32);
    }

    #[test]
    #[should_panic(expected = "2 of 3 values are too far apart; worst at index 2")]
    fn the_worst_entry_is_named() {
        assert_close(&[1.0_f64, 2.1, 4.0], &[1.0_f64, 2.0, 3.0], tolerance::F32);
    }

    #[test]
    #[should_panic(expected = "worst at index 1: expected 5 got NaN")]
    fn nan_is_the_worst_entry() {
        assert_close(&[1.0_f64, f64::NAN, 9.0], &[1.0_f64, 5.0, 3.0], tolerance::F32);
    }
}
