//! Work space that grows to what a call needs and is reused by the next.

/// Bytes of a cache line on the supported processors.
pub const CACHE_LINE_BYTES: usize = 64;

/// Numbers that start at a cache line: a vector that lies in two of them costs two accesses.
///
/// Its contents between calls are unspecified. A clone has to be written again: its
/// numbers may have another offset.
#[derive(Debug, Clone, Default)]
pub struct Aligned<T = f32>(Vec<T>);

impl<T: Copy + Default> Aligned<T> {
    const MOST_BEFORE: usize = CACHE_LINE_BYTES / size_of::<T>();

    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The first `count` numbers; grows the buffer if needed.
    pub fn grown(&mut self, count: usize) -> &mut [T] {
        grown(&mut self.0, count + Self::MOST_BEFORE);
        let start = self.start();
        &mut self.0[start..start + count]
    }

    /// The first `count` numbers.
    ///
    /// # Panics
    /// If it has never grown to as many.
    #[must_use]
    pub fn numbers(&self, count: usize) -> &[T] {
        let start = self.start();
        &self.0[start..start + count]
    }

    /// The first `count` numbers.
    ///
    /// # Panics
    /// If it has never grown to as many.
    #[must_use]
    pub fn numbers_mut(&mut self, count: usize) -> &mut [T] {
        let start = self.start();
        &mut self.0[start..start + count]
    }

    /// Bytes held.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<T>()
    }

    fn start(&self) -> usize {
        self.0.as_ptr().align_offset(CACHE_LINE_BYTES).min(Self::MOST_BEFORE)
    }
}

/// The first `count` numbers of a buffer that grows to hold them.
pub fn grown<T: Copy + Default>(buffer: &mut Vec<T>, count: usize) -> &mut [T] {
    if buffer.len() < count {
        // Not more: the sizes of a call's pieces are few, and their order is not known.
        buffer.reserve_exact(count - buffer.len());
        buffer.resize(count, T::default());
    }
    &mut buffer[..count]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_start_at_a_cache_line_also_after_growing_and_of_a_clone() {
        let mut buffer = Aligned::<f32>::new();
        let mut place = 0;
        for count in [1, 17, 4096, 5] {
            let numbers = buffer.grown(count);
            assert_eq!(numbers.len(), count);
            place = numbers.as_ptr().addr();
            assert_eq!(place % CACHE_LINE_BYTES, 0);
        }
        assert_eq!(buffer.numbers(4096).as_ptr().addr(), place);
        assert!(buffer.bytes() >= 4 * 4096);
        let mut clone = buffer.clone();
        clone.grown(4096).fill(3.0);
        assert_eq!(clone.numbers(4096).as_ptr().addr() % CACHE_LINE_BYTES, 0);
        assert!(clone.numbers_mut(4096).iter().all(|&number| number == 3.0));
    }
}
