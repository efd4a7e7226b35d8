//! The list of free memory.

use std::cmp::Reverse;

/// The limit of free ranges. The list is part of the allocator, since it cannot allocate.
const MOST: usize = 1024;

/// For how many allocations of large blocks a range is kept from which none of them takes: more than
/// the steps of an epoch of most networks allocate between two evaluations.
const MOST_UNUSED: u64 = 1 << 14;

/// After so many moves, all free memory goes back to the system as soon as it is the larger part:
/// every move splits mappings of the process, which Linux limits to 65,530.
const MANY_MOVES: u32 = 1 << 12;

/// After so many moves, nothing is moved until then.
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
            moves: 0,
            is_releasing: false,
        }
    }

    /// Bytes of all free ranges.
    pub(crate) const fn free_bytes(&self) -> usize {
        self.free_bytes
    }

    /// Counts a block as used, and returns the start of free memory for it, if a range has room: the
    /// smallest that has, and of equal ones that freed last, which may still be in the cache.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<usize> {
        self.allocations += 1;
        self.resize(0, bytes);
        let ranges = self.free[..self.count].iter().enumerate();
        let fits = ranges.filter(|(_, range)| range.bytes >= bytes);
        let (index, range) =
            fits.min_by_key(|(_, range)| (range.bytes, Reverse(range.freed_at)))?;
        let start = range.start;
        self.shorten(index, bytes);
        Some(start)
    }

    /// Takes the memory behind a block that grows, if it is free, and counts it as used.
    pub(crate) fn extend(&mut self, end: usize, bytes: usize) -> bool {
        let Ok(index) = self.find(end) else { return false };
        if self.free[index].bytes < bytes {
            return false;
        }
        self.resize(0, bytes);
        self.shorten(index, bytes);
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
                let next = self.remove(index);
                self.free_bytes += next.bytes;
                self.free[index - 1].bytes += bytes + next.bytes;
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

    /// Counts a used block as one of another size.
    pub(crate) fn resize(&mut self, from: usize, to: usize) {
        self.used_bytes = self.used_bytes - from + to;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
    }

    /// Removes memory that has to go back to the system: from the range that was freed first, what is
    /// too much, or all of it if the list is full or no request took from it for long; and everything
    /// after many moves.
    pub(crate) fn surplus(&mut self) -> Option<Range> {
        let ranges = self.free[..self.count].iter().enumerate();
        let Some((index, range)) = ranges.min_by_key(|(_, range)| range.freed_at) else {
            self.is_releasing = false;
            return None;
        };
        let is_old = self.allocations - range.freed_at > MOST_UNUSED;
        if self.moves > MANY_MOVES && self.free_bytes > self.used_bytes {
            (self.is_releasing, self.moves) = (true, 0);
        }
        if self.count == MOST || is_old || self.is_releasing {
            return Some(self.remove(index));
        }
        let surplus = (self.used_bytes + self.free_bytes).saturating_sub(self.peak_bytes);
        if surplus == 0 {
            return None;
        }
        if surplus >= range.bytes {
            return Some(self.remove(index));
        }
        let last = &mut self.free[index];
        last.bytes -= surplus;
        self.free_bytes -= surplus;
        Some(Range { start: last.end(), bytes: surplus, freed_at: last.freed_at })
    }

    /// Whether free memory may be moved.
    pub(crate) const fn may_move(&self) -> bool {
        self.moves < MOST_MOVES
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
        self.free_bytes -= bytes;
    }

    fn remove(&mut self, index: usize) -> Range {
        let range = self.free[index];
        self.free.copy_within(index + 1..self.count, index);
        self.count -= 1;
        self.free_bytes -= range.bytes;
        range
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
        let start = ranges.take(bytes).unwrap_or_else(|| {
            *fresh += 1 << 20;
            *fresh
        });
        while ranges.surplus().is_some() {}
        start
    }

    fn free(ranges: &mut Ranges, start: usize, bytes: usize) {
        assert!(ranges.put(start, bytes), "room");
        while ranges.surplus().is_some() {}
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
        let mut ranges = Ranges::new();
        assert_eq!(ranges.take(30), None);
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
        let mut ranges = Ranges::new();
        for bytes in [8, 4, 4, 9] {
            assert_eq!(ranges.take(bytes), None);
        }
        for (start, bytes) in [(100, 8), (300, 4), (200, 4), (400, 9)] {
            assert!(ranges.put(start, bytes));
            assert_eq!(ranges.take(64), None);
            ranges.resize(64, 0);
        }
        assert_eq!(ranges.take(3), Some(200));
        assert_eq!(ranges.take(4), Some(300));
        assert_eq!(ranges.take(9), Some(400));
    }

    #[test]
    fn what_is_too_much_is_the_end_of_the_range_freed_first() {
        let mut ranges = Ranges::new();
        for bytes in [10, 10] {
            assert_eq!(ranges.take(bytes), None);
        }
        assert!(ranges.put(100, 10));
        assert_eq!(ranges.surplus(), None);
        assert_eq!(ranges.take(13), None);
        let range = ranges.surplus().expect("33 of at most 23 are not allowed");
        assert_eq!((range.start, range.bytes), (100, 10));
        assert!(ranges.put(200, 10));
        assert_eq!(ranges.take(12), None);
        let range = ranges.surplus().expect("35 of at most 25");
        assert_eq!((range.start, range.bytes), (200, 10));
        assert!(ranges.put(300, 12));
        assert_eq!(ranges.take(2), Some(300));
        assert_eq!(ranges.take(11), None);
        let range = ranges.surplus().expect("36 of at most 26");
        assert_eq!((range.start, range.bytes), (302, 10));
    }

    #[test]
    fn a_range_that_no_request_takes_goes_back_to_the_system() {
        let (mut ranges, mut fresh) = (Ranges::new(), 0);
        let [unused, other] = [100, 1].map(|bytes| allocate(&mut ranges, &mut fresh, bytes));
        free(&mut ranges, unused, 100);
        free(&mut ranges, other, 1);
        for _ in 0..=MOST_UNUSED {
            assert_eq!(ranges.free_bytes(), 101);
            let start = allocate(&mut ranges, &mut fresh, 1);
            free(&mut ranges, start, 1);
        }
        allocate(&mut ranges, &mut fresh, 1);
        assert_eq!(ranges.free_bytes(), 0);
    }

    #[test]
    fn a_full_list_keeps_no_more_and_says_so() {
        let mut ranges = Ranges::new();
        assert_eq!(ranges.take(2 * MOST + 1), None);
        for range in 0..MOST {
            assert!(ranges.put(2 * range, 1));
        }
        assert!(!ranges.put(2 * MOST, 1));
        assert_eq!(ranges.surplus().map(|range| range.start), Some(0), "the first of the oldest");
    }

    #[test]
    fn after_many_moves_all_free_memory_goes_back_when_it_is_the_larger_part() {
        let mut ranges = Ranges::new();
        for bytes in [10, 30, 30] {
            assert_eq!(ranges.take(bytes), None);
        }
        (0..=MANY_MOVES).for_each(|_| ranges.count_move());
        assert!(ranges.put(100, 30));
        assert_eq!(ranges.surplus(), None, "40 bytes are used");
        assert!(ranges.put(200, 30));
        let gone: Vec<usize> = std::iter::from_fn(|| ranges.surplus()).map(|it| it.bytes).collect();
        assert_eq!(gone, [30, 30]);
        (0..=MANY_MOVES).for_each(|_| ranges.count_move());
        assert!(ranges.may_move());
        (0..MOST_MOVES).for_each(|_| ranges.count_move());
        assert!(!ranges.may_move());
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
