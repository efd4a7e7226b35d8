//! The part of a list of work that a rank does.

use std::ops::Range;

use crate::Collective;

/// One rank among several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    rank: usize,
    size: usize,
}

impl Share {
    /// The share of this rank of `collective`.
    pub fn of(collective: &dyn Collective) -> Self {
        Self { rank: collective.rank(), size: collective.size() }
    }

    /// The share of rank `rank` of `size`.
    ///
    /// # Panics
    /// If `rank` is not less than `size`.
    pub fn new(rank: usize, size: usize) -> Self {
        assert!(rank < size, "rank {rank} is not less than the number of ranks, {size}");
        Self { rank, size }
    }

    /// This rank's part of `count` items: neighbors in order, and parts whose lengths differ by at
    /// most one.
    pub const fn range(self, count: usize) -> Range<usize> {
        let (length, longer) = (count / self.size, count % self.size);
        let before = if self.rank < longer { self.rank } else { longer };
        let start = self.rank * length + before;
        start..start + length + (self.rank < longer) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_are_everything_once(count in 0usize..1000, size in 1usize..40) {
            let shares: Vec<_> = (0..size).map(|rank| Share::new(rank, size).range(count)).collect();
            let items: Vec<usize> = shares.iter().cloned().flatten().collect();
            prop_assert_eq!(items, (0..count).collect::<Vec<_>>());
            let lengths = shares.iter().map(ExactSizeIterator::len);
            let (shortest, longest) = (lengths.clone().min(), lengths.max());
            prop_assert!(longest.unwrap() - shortest.unwrap() <= 1);
        }
    }
}
