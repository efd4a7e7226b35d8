//! The list of blocks that were freed and are kept.

/// The limit of kept blocks. The list is part of the allocator, since it cannot allocate.
const MOST: usize = 1024;

/// For how many allocations of large blocks a block is kept that none of them takes: more than the steps
/// of an epoch of most networks allocate between two evaluations.
const MOST_UNUSED: u64 = 1 << 14;

/// A block that was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its address.
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    pub(crate) align: usize,
    /// The number of allocations when it was freed.
    freed_at: u64,
}

/// The blocks that are kept, those freed earlier first, and the account of all large blocks.
///
/// Kept and used blocks together are never more than used blocks alone have been.
#[derive(Debug)]
pub(crate) struct Blocks {
    kept: [Block; MOST],
    count: usize,
    kept_bytes: usize,
    used_bytes: usize,
    /// The most that [`Self::used_bytes`] has been.
    peak_bytes: usize,
    /// Allocations so far.
    allocations: u64,
}

impl Blocks {
    pub(crate) const fn new() -> Self {
        let none = Block { start: 0, bytes: 0, align: 0, freed_at: 0 };
        Self {
            kept: [none; MOST],
            count: 0,
            kept_bytes: 0,
            used_bytes: 0,
            peak_bytes: 0,
            allocations: 0,
        }
    }

    /// Bytes of blocks that are kept.
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Counts a block as used, and returns the address of a kept one of its size and alignment: the
    /// one that was freed last, which may still be in the cache.
    pub(crate) fn take(&mut self, bytes: usize, align: usize) -> Option<usize> {
        self.allocations += 1;
        self.used_bytes += bytes;
        let kept = &self.kept[..self.count];
        let fits = |block: &Block| block.bytes == bytes && block.align == align;
        let start = kept.iter().rposition(fits).map(|index| self.remove(index).start);
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        start
    }

    /// Counts a used block as freed, and keeps it; returns whether there was room in the list.
    #[must_use]
    pub(crate) fn put(&mut self, start: usize, bytes: usize, align: usize) -> bool {
        self.used_bytes -= bytes;
        let Some(room) = self.kept.get_mut(self.count) else { return false };
        *room = Block { start, bytes, align, freed_at: self.allocations };
        self.count += 1;
        self.kept_bytes += bytes;
        true
    }

    /// Counts a used block as one of another size.
    pub(crate) fn resize(&mut self, from: usize, to: usize) {
        self.used_bytes = self.used_bytes - from + to;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
    }

    /// Removes a block that has to go back to the system: the one freed first, if there are too many,
    /// too much is kept, or no request took it for long.
    pub(crate) fn surplus(&mut self) -> Option<Block> {
        let first = self.kept[..self.count].first()?;
        let is_full = self.count == MOST;
        let is_too_much = self.used_bytes + self.kept_bytes > self.peak_bytes;
        let is_old = self.allocations - first.freed_at > MOST_UNUSED;
        (is_full || is_too_much || is_old).then(|| self.remove(0))
    }

    /// Removes the block that was freed first.
    pub(crate) fn first(&mut self) -> Option<Block> {
        (self.count > 0).then(|| self.remove(0))
    }

    fn remove(&mut self, index: usize) -> Block {
        let block = self.kept[index];
        self.kept.copy_within(index + 1..self.count, index);
        self.count -= 1;
        self.kept_bytes -= block.bytes;
        block
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Allocates, with addresses of its own for new blocks, and returns the address.
    fn allocate(blocks: &mut Blocks, fresh: &mut usize, bytes: usize) -> usize {
        let start = blocks.take(bytes, 64).unwrap_or_else(|| {
            *fresh += 1 << 20;
            *fresh
        });
        while blocks.surplus().is_some() {}
        start
    }

    fn free(blocks: &mut Blocks, start: usize, bytes: usize) {
        assert!(blocks.put(start, bytes, 64), "room");
        while blocks.surplus().is_some() {}
    }

    #[test]
    fn a_step_that_repeats_takes_the_blocks_of_the_step_before() {
        let (mut blocks, mut fresh) = (Blocks::new(), 0);
        let mut step = || {
            let sizes = [3_usize, 5, 5, 8];
            let starts = sizes.map(|bytes| allocate(&mut blocks, &mut fresh, bytes));
            for (start, bytes) in starts.into_iter().zip(sizes).rev() {
                free(&mut blocks, start, bytes);
            }
            fresh
        };
        let first = step();
        assert_eq!([step(), step()], [first; 2], "no new block");
    }

    #[test]
    fn alignment_and_size_have_to_be_those_of_the_block() {
        let mut blocks = Blocks::new();
        assert_eq!(blocks.take(8, 64), None);
        assert!(blocks.put(1, 8, 64));
        assert_eq!(blocks.take(8, 32), None);
        assert_eq!(blocks.take(7, 64), None);
        assert_eq!(blocks.take(8, 64), Some(1));
        assert_eq!(blocks.take(8, 64), None, "it is used");
    }

    #[test]
    fn a_block_that_no_request_takes_goes_back_to_the_system() {
        let (mut blocks, mut fresh) = (Blocks::new(), 0);
        let [unused, other] = [100, 1].map(|bytes| allocate(&mut blocks, &mut fresh, bytes));
        free(&mut blocks, unused, 100);
        free(&mut blocks, other, 1);
        for _ in 0..=MOST_UNUSED {
            assert_eq!(blocks.kept_bytes(), 101);
            let start = allocate(&mut blocks, &mut fresh, 1);
            free(&mut blocks, start, 1);
        }
        allocate(&mut blocks, &mut fresh, 1);
        assert_eq!(blocks.kept_bytes(), 0);
    }

    #[test]
    fn a_full_list_keeps_no_more_and_says_so() {
        let mut blocks = Blocks::new();
        for _ in 0..=MOST {
            assert_eq!(blocks.take(1, 1), None);
        }
        for start in 0..MOST {
            assert!(blocks.put(start, 1, 1));
        }
        assert!(!blocks.put(MOST, 1, 1));
        assert_eq!(blocks.surplus().map(|block| block.start), Some(0), "the first that was freed");
    }

    proptest! {
        #[test]
        fn kept_and_used_blocks_are_never_more_than_used_ones_have_been(
            sizes in proptest::collection::vec((1_usize..9, any::<prop::sample::Index>()), 1..400),
        ) {
            let (mut blocks, mut fresh) = (Blocks::new(), 0);
            let mut used = BTreeMap::new();
            let mut peak = 0;
            for (bytes, index) in sizes {
                if bytes < 5 || used.is_empty() {
                    let start = allocate(&mut blocks, &mut fresh, bytes);
                    prop_assert_eq!(used.insert(start, bytes), None, "used twice");
                } else {
                    let start = *index.get(&used.keys().copied().collect::<Vec<_>>());
                    let bytes = used.remove(&start).expect("used");
                    free(&mut blocks, start, bytes);
                }
                let now = used.values().sum::<usize>();
                peak = peak.max(now);
                prop_assert!(now + blocks.kept_bytes() <= peak);
            }
        }
    }
}
