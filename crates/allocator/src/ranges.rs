//! The list of free memory.

use std::cmp::Reverse;

/// The limit of free ranges. The list is part of the allocator, since it cannot allocate.
const MOST: usize = 1024;

/// After so many allocations of large blocks, memory that was free all the time goes back to the
/// system: more than the steps of an epoch of most networks allocate between two evaluations.
const WINDOW: u64 = 1 << 14;

/// After so many moves, all free memory goes back to the system as soon as it is the larger part:
/// every move splits mappings of the process, which Linux limits to 65,530.
const MANY_MOVES: u32 = 1 << 12;

/// After so many moves, it does in any case.
const MOST_MOVES: u32 = 1 << 14;

/// Addresses of memory that no block uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    /// Its first address.
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    /// The number of allocations when its last part was freed.
    freed_at: u64,
}

/// The free ranges by address, no two of them next to each other, and the account of all large
/// blocks.
///
/// Free ranges and used blocks together are never more than used blocks alone have been.
#[derive(Debug)]
pub(crate) struct Ranges {
    free: [Range; MOST],
    count: usize,
    free_bytes: usize,
    used_bytes: usize,
    /// The most that [`Self::used_bytes`] has been.
    peak_bytes: usize,
    /// Allocations so far.
    allocations: u64,
    /// Allocations before the current window.
    window_start: u64,
    /// The least that [`Self::free_bytes`] has been in the window.
    least_free: usize,
    /// Bytes that are still to go back: nothing took them in a window.
    unneeded: usize,
    /// Moves of free memory since all of it went back to the system.
    moves: u32,
    /// Whether all of it is going back.
    is_releasing: bool,
}

impl Ranges {
    pub(crate) const fn new() -> Self {
        let none = Range { start: 0, bytes: 0, freed_at: 0 };
        Self {
            free: [none; MOST],
            count: 0,
            free_bytes: 0,
            used_bytes: 0,
            peak_bytes: 0,
            allocations: 0,
            window_start: 0,
            least_free: 0,
            unneeded: 0,
            moves: 0,
            is_releasing: false,
        }
    }

    /// Bytes of all free ranges.
    pub(crate) const fn free_bytes(&self) -> usize {
        self.free_bytes
    }

    /// Takes free memory for a block, and counts it as used: from the smallest range that has room, and
    /// of equal ones from that freed last, which may still be in the cache. `None` if none has.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<usize> {
        self.allocations += 1;
        let ranges = self.free[..self.count].iter().enumerate();
        let fits = ranges.filter(|(_, range)| range.bytes >= bytes);
        let (index, range) =
            fits.min_by_key(|(_, range)| (range.bytes, Reverse(range.freed_at)))?;
        let start = range.start;
        self.shorten(index, bytes);
        self.count_used(bytes);
        Some(start)
    }

    /// Counts memory of the system as used.
    pub(crate) fn count_used(&mut self, bytes: usize) {
        self.used_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
    }

    /// Takes the memory behind a block that grows, if it is free, and counts it as used.
    pub(crate) fn extend(&mut self, end: usize, bytes: usize) -> bool {
        let Ok(index) = self.find(end) else { return false };
        if self.free[index].bytes < bytes {
            return false;
        }
        self.shorten(index, bytes);
        self.count_used(bytes);
        true
    }

    /// Counts used memory as free; returns whether there was room in the list.
    #[must_use]
    pub(crate) fn put(&mut self, start: usize, bytes: usize) -> bool {
        self.used_bytes -= bytes;
        let freed_at = self.allocations;
        let index = self.find(start).unwrap_or_else(|index| index);
        let follows = index > 0 && self.free[index - 1].end() == start;
        let precedes = index < self.count && start + bytes == self.free[index].start;
        match (follows, precedes) {
            (true, true) => {
                self.free[index - 1].bytes += bytes + self.free[index].bytes;
                self.free.copy_within(index + 1..self.count, index);
                self.count -= 1;
                self.free[index - 1].freed_at = freed_at;
            }
            (true, false) => {
                self.free[index - 1].bytes += bytes;
                self.free[index - 1].freed_at = freed_at;
            }
            (false, true) => {
                let bytes = bytes + self.free[index].bytes;
                self.free[index] = Range { start, bytes, freed_at };
            }
            (false, false) => {
                if self.count == MOST {
                    return false;
                }
                self.free.copy_within(index..self.count, index + 1);
                self.free[index] = Range { start, bytes, freed_at };
                self.count += 1;
            }
        }
        self.free_bytes += bytes;
        true
    }

    /// Removes memory that has to go back to the system, from the range that was freed first: what is
    /// too much beside a new block of `wanted` bytes, or was free for a whole window; a range if the
    /// list is full; and everything after many moves.
    pub(crate) fn surplus(&mut self, wanted: usize) -> Option<Range> {
        if self.allocations - self.window_start > WINDOW {
            self.unneeded = self.least_free;
            (self.window_start, self.least_free) = (self.allocations, self.free_bytes);
        }
        let is_larger = self.free_bytes > self.used_bytes;
        if self.moves > MANY_MOVES && (is_larger || self.moves > MOST_MOVES) {
            (self.is_releasing, self.moves) = (true, 0);
        }
        let used = self.used_bytes + wanted;
        let too_much = (used + self.free_bytes).saturating_sub(self.peak_bytes.max(used));
        let bytes = match self.is_releasing {
            true => self.free_bytes,
            false => too_much.max(self.unneeded.min(self.free_bytes)),
        };
        if bytes == 0 && self.count < MOST {
            (self.is_releasing, self.unneeded) = (false, 0);
            return None;
        }
        let ranges = self.free[..self.count].iter().enumerate();
        let (index, range) = ranges.min_by_key(|(_, range)| range.freed_at)?;
        let bytes = if bytes == 0 { range.bytes } else { bytes.min(range.bytes) };
        let range = Range { start: range.end() - bytes, bytes, ..*range };
        self.unneeded = self.unneeded.saturating_sub(bytes);
        if bytes == self.free[index].bytes {
            return Some(self.remove(index));
        }
        self.free[index].bytes -= bytes;
        self.count_taken(bytes);
        Some(range)
    }

    /// Counts a move.
    pub(crate) const fn count_move(&mut self) {
        self.moves += 1;
    }

    /// Removes any range.
    pub(crate) fn any(&mut self) -> Option<Range> {
        (self.count > 0).then(|| self.remove(self.count - 1))
    }

    /// The index of the range that starts at an address, or of the first behind it.
    fn find(&self, start: usize) -> Result<usize, usize> {
        self.free[..self.count].binary_search_by_key(&start, |range| range.start)
    }

    /// Takes the first bytes of a range.
    fn shorten(&mut self, index: usize, bytes: usize) {
        let range = &mut self.free[index];
        if range.bytes == bytes {
            self.remove(index);
            return;
        }
        range.start += bytes;
        range.bytes -= bytes;
        self.count_taken(bytes);
    }

    fn remove(&mut self, index: usize) -> Range {
        let range = self.free[index];
        self.free.copy_within(index + 1..self.count, index);
        self.count -= 1;
        self.count_taken(range.bytes);
        range
    }

    /// Counts bytes as free no more.
    fn count_taken(&mut self, bytes: usize) {
        self.free_bytes -= bytes;
        self.least_free = self.least_free.min(self.free_bytes);
    }
}

impl Range {
    const fn end(&self) -> usize {
        self.start + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Allocates, with new memory that has no neighbors where nothing is free, and returns the address.
    fn allocate(ranges: &mut Ranges, fresh: &mut usize, bytes: usize) -> usize {
        ranges.take(bytes).unwrap_or_else(|| {
            while ranges.surplus(bytes).is_some() {}
            ranges.count_used(bytes);
            *fresh += 1 << 20;
            *fresh
        })
    }

    fn free(ranges: &mut Ranges, start: usize, bytes: usize) {
        assert!(ranges.put(start, bytes), "room");
        while ranges.surplus(0).is_some() {}
    }

    /// A list with so many used bytes of the system.
    fn with_used(bytes: usize) -> Ranges {
        let mut ranges = Ranges::new();
        ranges.count_used(bytes);
        ranges
    }

    #[test]
    fn a_step_that_repeats_takes_the_memory_of_the_step_before() {
        let (mut ranges, mut fresh) = (Ranges::new(), 0);
        let mut step = || {
            let sizes = [3_usize, 5, 5, 8];
            let starts = sizes.map(|bytes| allocate(&mut ranges, &mut fresh, bytes));
            for (start, bytes) in starts.into_iter().zip(sizes).rev() {
                free(&mut ranges, start, bytes);
            }
            fresh
        };
        let first = step();
        assert_eq!([step(), step()], [first; 2], "no new memory");
    }

    #[test]
    fn neighbors_are_joined_and_cut_again() {
        let mut ranges = with_used(30);
        for start in [20, 0, 10] {
            assert!(ranges.put(start, 10));
        }
        assert_eq!(ranges.count, 1);
        assert_eq!([ranges.take(12), ranges.take(18), ranges.take(1)], [Some(0), Some(12), None]);
        assert!(ranges.put(12, 18));
        assert!(ranges.extend(12, 5), "the block before grows");
        assert!(!ranges.extend(17, 14), "13 are left");
        assert_eq!(ranges.take(13), Some(17));
    }

    #[test]
    fn the_smallest_range_is_cut_and_the_last_of_equal_ones() {
        let mut ranges = with_used(25);
        for (start, bytes) in [(100, 8), (300, 4), (200, 4), (400, 9)] {
            assert!(ranges.put(start, bytes));
            assert_eq!(ranges.take(64), None);
        }
        assert_eq!(ranges.take(3), Some(200));
        assert_eq!(ranges.take(4), Some(300));
        assert_eq!(ranges.take(9), Some(400));
    }

    #[test]
    fn what_is_too_much_is_the_end_of_the_range_freed_first() {
        let mut ranges = with_used(23);
        assert!(ranges.put(100, 10) && ranges.put(200, 6));
        assert_eq!(ranges.surplus(0), None);
        assert_eq!(ranges.surplus(7).map(|range| (range.start, range.bytes)), Some((103, 7)));
        assert_eq!(ranges.surplus(7), None, "7 used, 9 free and 7 wanted are 23");
        // More than was ever used: nothing stays free.
        let gone = std::iter::from_fn(|| ranges.surplus(40));
        assert_eq!(gone.map(|range| range.bytes).collect::<Vec<_>>(), [3, 6]);
        assert_eq!(ranges.peak_bytes, 23, "40 bytes are not used yet");
    }

    #[test]
    fn memory_that_nothing_takes_goes_back_even_if_its_neighbor_is_used() {
        let mut ranges = with_used(110);
        assert!(ranges.put(0, 100) && ranges.put(100, 10));
        for _ in 0..2 * WINDOW + 2 {
            let start = ranges.take(10).expect("free");
            assert!(ranges.put(start, 10));
            while ranges.surplus(0).is_some() {}
        }
        assert_eq!(ranges.free_bytes(), 10);
    }

    #[test]
    fn a_full_list_keeps_no_more_and_says_so() {
        let mut ranges = with_used(2 * MOST + 1);
        for range in 0..MOST {
            assert!(ranges.put(2 * range, 1));
        }
        assert!(!ranges.put(2 * MOST, 1));
        assert_eq!(ranges.surplus(0).map(|range| range.start), Some(0), "the first of the oldest");
        assert_eq!(ranges.surplus(0), None);
    }

    #[test]
    fn after_many_moves_all_free_memory_goes_back() {
        let mut ranges = with_used(70);
        (0..=MANY_MOVES).for_each(|_| ranges.count_move());
        assert!(ranges.put(100, 30));
        assert_eq!(ranges.surplus(0), None, "40 bytes are used");
        assert!(ranges.put(200, 30));
        let gone: Vec<_> = std::iter::from_fn(|| ranges.surplus(0)).map(|it| it.bytes).collect();
        assert_eq!(gone, [30, 30]);
        ranges.count_used(60);
        assert!(ranges.put(100, 10));
        (0..=MOST_MOVES).for_each(|_| ranges.count_move());
        assert_eq!(ranges.surplus(0).map(|it| it.bytes), Some(10), "whatever is used");
        assert_eq!((ranges.surplus(0), ranges.moves), (None, 0));
    }

    proptest! {
        #[test]
        fn free_and_used_memory_never_overlap_and_are_never_more_than_was_used(
            steps in proptest::collection::vec((1_usize..9, any::<prop::sample::Index>()), 1..400),
        ) {
            let (mut ranges, mut fresh) = (Ranges::new(), 0);
            let mut used = BTreeMap::new();
            let mut peak = 0;
            for (bytes, index) in steps {
                if bytes < 5 || used.is_empty() {
                    let start = allocate(&mut ranges, &mut fresh, bytes);
                    prop_assert_eq!(used.insert(start, bytes), None, "used twice");
                } else {
                    let start = *index.get(&used.keys().copied().collect::<Vec<_>>());
                    let bytes = used.remove(&start).expect("used");
                    free(&mut ranges, start, bytes);
                }
                let now = used.values().sum::<usize>();
                peak = peak.max(now);
                prop_assert!(now + ranges.free_bytes() <= peak);
                prop_assert_eq!(ranges.used_bytes, now);
                let free = &ranges.free[..ranges.count];
                prop_assert_eq!(free.iter().map(|range| range.bytes).sum::<usize>(), ranges.free_bytes);
                prop_assert!(free.windows(2).all(|two| two[0].end() < two[1].start));
                let mut all: Vec<_> = free.iter().map(|range| (range.start, range.end())).collect();
                all.extend(used.iter().map(|(start, bytes)| (*start, start + bytes)));
                all.sort_unstable();
                prop_assert!(all.windows(2).all(|two| two[0].1 <= two[1].0), "{:?}", all);
            }
        }
    }
}
