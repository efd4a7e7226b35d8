//! Memory of consumed tensors, kept for later results of the same size.
//!
//! A training step makes the same large tensors again and again. An allocator gives memory of
//! that size back to the system, which clears every page that it hands out anew: that took more
//! time than the norms did.

use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::flex::FlexTensor;

/// The least that is kept, in numbers; smaller memory an allocator keeps itself.
const LEAST: usize = 1 << 14;

/// The most that is kept, in numbers: 1 GiB.
const MOST: usize = 1 << 28;

static KEPT: Mutex<Kept> = Mutex::new(Kept { vectors: Vec::new(), numbers: 0 });

/// Vectors whose numbers mean nothing, the longest kept first.
struct Kept {
    vectors: Vec<Vec<f32>>,
    numbers: usize,
}

impl Kept {
    fn put(&mut self, vector: Vec<f32>, most: usize) {
        self.numbers += vector.len();
        self.vectors.push(vector);
        while self.numbers > most {
            self.numbers -= self.vectors.remove(0).len();
        }
    }

    /// The vector of a length that was put last: it may still be in the cache.
    fn take(&mut self, len: usize) -> Option<Vec<f32>> {
        let index = self.vectors.iter().rposition(|vector| vector.len() == len)?;
        self.numbers -= len;
        Some(self.vectors.remove(index))
    }
}

/// Keeps the memory of tensors that nobody else holds.
pub(super) fn keep<const N: usize>(tensors: [FlexTensor; N]) {
    for tensor in tensors {
        let data = tensor.data_arc();
        drop(tensor);
        let vector = Arc::try_unwrap(data).ok().and_then(|bytes| bytes.try_into_vec().ok());
        if let Some(vector) = vector.filter(|vector| vector.len() >= LEAST) {
            locked(|kept| kept.put(vector, MOST));
        }
    }
}

/// Memory for a result: kept, or none yet.
pub(super) fn take(len: usize) -> Vec<f32> {
    locked(|kept| kept.take(len)).unwrap_or_default()
}

/// Gives back the memory that operations keep for the next ones, at most 1 GiB.
///
/// Results of operations on flex are written into memory of tensors that earlier ones consumed.
/// Nothing has to be released for correctness; a program that has finished training and goes on
/// to something else may want the memory.
pub fn release_memory() {
    locked(|kept| *kept = Kept { vectors: Vec::new(), numbers: 0 });
}

fn locked<T>(run: impl FnOnce(&mut Kept) -> T) -> T {
    // Whatever another thread's panic left is a list of vectors still.
    run(&mut KEPT.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;

    use super::*;

    fn tensor(len: usize) -> FlexTensor {
        FlexTensor::from_data(TensorData::new(vec![1.0_f32; len], [len]))
    }

    #[test]
    fn memory_is_kept_once_nobody_holds_it_and_taken_by_its_length() {
        // A length that no other test has: the list is one for the process.
        let len = LEAST + 12_345;
        let held = tensor(len);
        keep([held.clone()]);
        assert!(take(len).is_empty(), "somebody holds it still");
        let at = held.storage::<f32>().as_ptr();
        keep([held]);
        assert!(take(len + 1).is_empty());
        let again = take(len);
        assert_eq!(again.as_ptr(), at);
        assert!(take(len).is_empty());
        keep([tensor(len)]);
        release_memory();
        assert!(take(len).is_empty());
    }

    #[test]
    fn what_was_kept_longest_goes_first() {
        let mut kept = Kept { vectors: Vec::new(), numbers: 0 };
        for len in [4, 5, 6] {
            kept.put(vec![0.0; len], 12);
        }
        assert_eq!(kept.numbers, 11);
        assert!(kept.take(4).is_none());
        assert_eq!(kept.take(5).map(|vector| vector.len()), Some(5));
        assert_eq!(kept.numbers, 6);
    }
}
