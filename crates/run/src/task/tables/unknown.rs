//! The categories that are replaced by unknown.

use updraft_data::{Draw, ItemHash};

/// The fraction of the categories of training rows that are replaced by unknown, drawn for each
/// epoch, row and column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct UnknownShare(f64);

impl UnknownShare {
    pub(super) const NONE: Self = Self(0.0);

    /// A fraction of at least 0 and below 1.
    pub(super) const fn new(share: f64) -> Self {
        Self(share)
    }

    pub(super) fn is_none(self) -> bool {
        self.0 <= 0.0
    }

    pub(super) const fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// Whether the category in a column is replaced in this delivery of a row.
    pub(super) fn drawn(self, draw: Draw) -> impl Fn(usize) -> bool {
        let hash = ItemHash::new(draw.seed, draw.epoch, draw.index);
        move |column| hash.is_drawn(column as u64, self.0)
    }
}
