//! Vectors that lie one line apart.
#![expect(unsafe_code, reason = "vectors are read and written through pointers, checked once")]

use std::marker::PhantomData;

use updraft_simd::Simd;

/// A vector of each of several lines.
#[derive(Clone, Copy)]
pub(in super::super) struct Lines<S: Simd> {
    first: *mut f32,
    pitch: usize,
    simd: PhantomData<S>,
}

impl<S: Simd> Lines<S> {
    /// The vectors at `column` of `count` lines, `pitch` numbers apart, for as long as nothing else
    /// uses the numbers.
    ///
    /// # Panics
    /// If the numbers are too few.
    #[inline(always)]
    pub(in super::super) fn new(
        numbers: &mut [f32],
        count: usize,
        pitch: usize,
        column: usize,
    ) -> Self {
        assert!(
            count == 0 || (count - 1) * pitch + column + S::LANES <= numbers.len(),
            "lines are missing"
        );
        let first = numbers.as_mut_ptr().wrapping_add(column);
        Self { first, pitch, simd: PhantomData }
    }

    /// A line's vector; the line has to be one of those that were counted.
    #[inline(always)]
    pub(super) fn read(self, simd: S, line: usize) -> S::Vector {
        // SAFETY: `new` has checked that the lines exist, and its user counts them.
        unsafe { simd.load(self.first.wrapping_add(line * self.pitch)) }
    }

    /// Replaces a line's vector; the line has to be one of those that were counted.
    #[inline(always)]
    pub(super) fn write(self, simd: S, line: usize, vector: S::Vector) {
        // SAFETY: `new` has checked that the lines exist, and its user counts them.
        unsafe { simd.store(self.first.wrapping_add(line * self.pitch), vector) };
    }

    /// Adds to a line's vector.
    #[inline(always)]
    pub(super) fn add(self, simd: S, line: usize, vector: S::Vector) {
        self.write(simd, line, simd.add(self.read(simd, line), vector));
    }
}
