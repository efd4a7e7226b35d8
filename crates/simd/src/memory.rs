//! Memory of results that are no longer needed, kept for later results of the same size.
//!
//! Every training step creates large tensors of the same sizes. An allocator returns memory of
//! that size to the system, which clears every page before it is used again: that took more
//! time than normalizations.
//!
//! Only as much is kept of a size as operations request: memory from elsewhere, such as the images
//! of each batch, would accumulate.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The smallest memory that is kept, in numbers; allocators keep smaller memory themselves.
const LEAST: usize = 1 << 14;

/// The default limit of kept memory, in numbers: 1 GiB.
const MOST: usize = 1 << 28;

/// The limit of kept vectors of one size after a time in which none was returned.
const MOST_OWED: usize = 256;

static KEPT: Mutex<Kept> = Mutex::new(Kept::new());

/// Vectors with unspecified contents, those kept for the longest time first.
struct Kept {
    vectors: Vec<Vec<f32>>,
    numbers: usize,
    /// The limit of kept numbers.
    capacity: usize,
    /// By length, how many more were taken than returned.
    owed: BTreeMap<usize, usize>,
}

impl Kept {
    const fn new() -> Self {
        Self { vectors: Vec::new(), numbers: 0, capacity: MOST, owed: BTreeMap::new() }
    }

    fn put(&mut self, vector: Vec<f32>) {
        let Some(owed) = self.owed.get_mut(&vector.len()).filter(|owed| **owed > 0) else { return };
        *owed -= 1;
        self.numbers += vector.len();
        self.vectors.push(vector);
        self.shrink();
    }

    /// Frees the oldest until the limit is met.
    fn shrink(&mut self) {
        while self.numbers > self.capacity {
            self.numbers -= self.vectors.remove(0).len();
        }
    }

    /// The vector of a length that was put last: it may still be in the cache.
    fn take(&mut self, len: usize) -> Option<Vec<f32>> {
        let owed = self.owed.entry(len).or_default();
        *owed = MOST_OWED.min(*owed + 1);
        let index = self.vectors.iter().rposition(|vector| vector.len() == len)?;
        self.numbers -= len;
        Some(self.vectors.remove(index))
    }
}

/// Keeps the memory of a result that is no longer needed; its contents are unspecified from now on.
///
/// Small memory is freed, since allocators keep that themselves, and so is more of a length than
/// [`take_memory`] was asked for.
pub fn keep_memory(vector: Vec<f32>) {
    if vector.len() >= LEAST {
        locked(|kept| kept.put(vector));
    }
}

/// Memory for a result of `len` numbers: a kept vector of that length with unspecified numbers, or an
/// empty one. [`fill_in_pieces`](crate::fill_in_pieces) takes either.
#[must_use]
pub fn take_memory(len: usize) -> Vec<f32> {
    if len < LEAST {
        return Vec::new();
    }
    locked(|kept| kept.take(len)).unwrap_or_default()
}

/// Releases the memory that operations keep for reuse.
///
/// Results of operations on flex are written into memory of tensors that earlier ones consumed, at
/// most as much as [`set_memory_capacity`] allows. Nothing has to be released for correctness; a
/// program that has finished training may want the memory for something else.
pub fn release_memory() {
    locked(|kept| *kept = Kept { capacity: kept.capacity, ..Kept::new() });
}

/// Sets how many bytes operations on flex keep for reuse in this process, 1 GiB by default; 0 keeps
/// none. Memory beyond it is released at once.
///
/// Results do not depend on it. A training step is slower if it allocates more than this, because
/// the system clears such memory every time.
pub fn set_memory_capacity(bytes: usize) {
    locked(|kept| {
        kept.capacity = bytes / size_of::<f32>();
        kept.shrink();
    });
}

fn locked<T>(run: impl FnOnce(&mut Kept) -> T) -> T {
    // After a panic of another thread the list is still valid.
    run(&mut KEPT.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_memory_is_reused_by_its_length() {
        // A length that no other test uses: the list is shared by the process.
        let len = LEAST + 12_345;
        assert!(take_memory(len).is_empty());
        let vector = vec![1.0; len];
        let at = vector.as_ptr();
        keep_memory(vector);
        assert!(take_memory(len + 1).is_empty());
        let again = take_memory(len);
        assert_eq!(again.as_ptr(), at);
        assert!(take_memory(len).is_empty());
        keep_memory(vec![1.0; len]);
        release_memory();
        assert!(take_memory(len).is_empty());
    }

    #[test]
    fn what_was_kept_longest_goes_first() {
        let mut kept = Kept { capacity: 12, ..Kept::new() };
        for len in [4, 5, 6] {
            assert!(kept.take(len).is_none());
            kept.put(vec![0.0; len]);
        }
        assert_eq!(kept.numbers, 11);
        assert!(kept.take(4).is_none());
        assert_eq!(kept.take(5).map(|vector| vector.len()), Some(5));
        assert_eq!(kept.numbers, 6);
        kept.capacity = 5;
        kept.shrink();
        assert_eq!((kept.numbers, kept.vectors.len()), (0, 0), "a smaller capacity holds at once");
    }

    #[test]
    fn no_more_is_kept_of_a_size_than_was_asked_for() {
        let mut kept = Kept::new();
        kept.put(vec![0.0; 4]);
        assert_eq!(kept.numbers, 0, "nobody asked for that size");
        for _ in 0..3 {
            assert!(kept.take(4).is_none());
        }
        for _ in 0..5 {
            kept.put(vec![0.0; 4]);
        }
        assert_eq!(kept.numbers, 3 * 4);
        assert!(kept.take(4).is_some());
        kept.put(vec![0.0; 4]);
        assert_eq!(kept.numbers, 3 * 4);
    }
}
