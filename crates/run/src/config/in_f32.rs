//! Ranges of numbers that are computed with in f32: a smaller one is 0 there, and a larger one
//! infinite.

/// The numbers of [`is_above_0_in_f32`].
pub(crate) const ABOVE_0_IN_F32: &str =
    "a finite number above 0 in the range of f32, 1.2e-38 to 3.4e38";

/// Whether a number is above 0 and has all of its digits in f32.
pub(crate) fn is_above_0_in_f32(number: &f64) -> bool {
    *number > 0.0 && (*number as f32).is_normal()
}

/// Whether a number is 0, or above 0 with all of its digits in f32.
pub(crate) fn is_0_or_above_in_f32(number: &f64) -> bool {
    *number == 0.0 || is_above_0_in_f32(number)
}

/// Whether a number is finite in f32.
pub(crate) fn is_finite_in_f32(number: &f64) -> bool {
    (*number as f32).is_finite()
}
