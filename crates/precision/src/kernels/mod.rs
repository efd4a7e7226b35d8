//! Sums on slices.

mod square_sums;

pub(crate) use square_sums::square_sums;
