//! Where sums go: as they are, as f32, or back into eight bits.
#![expect(unsafe_code, reason = "numbers are written through pointers")]

use super::vector::{LANES, Simd};

/// The end of a requantization: `zero + round(min(max(v, low), high))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Clamp {
    /// The least and the greatest value, counted from the zero point.
    pub(crate) low: f32,
    pub(crate) high: f32,
    /// The zero point of the output.
    pub(crate) zero: i32,
}

impl Clamp {
    /// The numbers from `least` to `greatest` around a zero point.
    pub(crate) fn new(zero: u8, least: u8, greatest: u8) -> Self {
        let from_zero = |bound: u8| f32::from(i16::from(bound) - i16::from(zero));
        Self { low: from_zero(least), high: from_zero(greatest), zero: zero.into() }
    }

    /// Rounds half to even, as IEEE 754 does by default.
    #[inline(always)]
    pub(crate) fn apply(self, value: f32) -> u8 {
        // 1.5·2²³ leaves no bits for a fraction; the integer is in the low bits of the sum.
        const WHOLE: f32 = 12_582_912.0;
        let bounded = value.max(self.low).min(self.high);
        let rounded = (bounded + WHOLE).to_bits().wrapping_sub(WHOLE.to_bits()) as i32;
        // Both are bytes apart; a checked sum would keep loops out of vectors where checks are on.
        rounded.wrapping_add(self.zero) as u8
    }
}

/// Takes the sums of one vector.
pub(crate) trait Sink: Copy {
    /// What is written.
    type Number;

    /// Writes the first `count` sums of a vector whose first column is `column` to the place `at`
    /// of an output.
    ///
    /// # Safety
    /// The output has `count` numbers from `at` on that nothing else uses meanwhile, the sink knows
    /// `column` and the [`LANES`] columns from there on, and it [reaches](Sink::reaches) as far.
    unsafe fn put<S: Simd>(
        self,
        simd: S,
        sums: S::Sums,
        column: usize,
        output: *mut Self::Number,
        at: usize,
        count: usize,
    );

    /// How many columns the sink knows.
    fn columns(&self) -> usize;

    /// Whether it knows the first `numbers` places of an output.
    fn reaches(&self, _numbers: usize) -> bool {
        true
    }
}

/// The sums themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw;

impl Sink for Raw {
    type Number = i32;

    #[inline(always)]
    unsafe fn put<S: Simd>(
        self,
        simd: S,
        sums: S::Sums,
        _: usize,
        output: *mut i32,
        at: usize,
        count: usize,
    ) {
        // SAFETY: the caller promises the room.
        unsafe { simd.store(output.wrapping_add(at), sums, count) };
    }

    fn columns(&self) -> usize {
        usize::MAX
    }
}

/// One factor for each column, in f32.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scaled<'a> {
    pub(crate) scales: &'a [f32],
}

impl Sink for Scaled<'_> {
    type Number = f32;

    #[inline(always)]
    unsafe fn put<S: Simd>(
        self,
        simd: S,
        sums: S::Sums,
        column: usize,
        output: *mut f32,
        at: usize,
        count: usize,
    ) {
        let scales = self.scales.as_ptr().wrapping_add(column);
        // SAFETY: the caller promises the room and the columns.
        unsafe { simd.store_scaled(output.wrapping_add(at), sums, scales, count) };
    }

    fn columns(&self) -> usize {
        self.scales.len()
    }
}

/// One factor for each column, then eight bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requantized<'a> {
    pub(crate) scales: &'a [f32],
    pub(crate) clamp: Clamp,
}

impl Sink for Requantized<'_> {
    type Number = u8;

    #[inline(always)]
    unsafe fn put<S: Simd>(
        self,
        simd: S,
        sums: S::Sums,
        column: usize,
        output: *mut u8,
        at: usize,
        count: usize,
    ) {
        let scales = self.scales.as_ptr().wrapping_add(column);
        // SAFETY: the caller promises the room and the columns.
        unsafe { simd.store_clamped(output.wrapping_add(at), sums, scales, self.clamp, count) };
    }

    fn columns(&self) -> usize {
        self.scales.len()
    }
}

/// How a code is added to a sum that has been scaled: `(code − zero)·factor`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plus {
    pub(crate) zero: i32,
    /// Steps of the output in one of the code's.
    pub(crate) factor: f32,
}

/// One factor for each column, a code for each number that is added, then eight bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summed<'a> {
    pub(crate) scales: &'a [f32],
    pub(crate) plus: Plus,
    /// In the places of the output.
    pub(crate) codes: &'a [u8],
    pub(crate) clamp: Clamp,
}

impl Sink for Summed<'_> {
    type Number = u8;

    #[inline(always)]
    unsafe fn put<S: Simd>(
        self,
        simd: S,
        sums: S::Sums,
        column: usize,
        output: *mut u8,
        at: usize,
        count: usize,
    ) {
        let Self { plus, clamp, .. } = self;
        let scales = self.scales.as_ptr().wrapping_add(column);
        let (to, codes) = (output.wrapping_add(at), self.codes.as_ptr().wrapping_add(at));
        // SAFETY: the caller promises the room, the columns and the codes.
        unsafe { simd.store_summed(to, sums, scales, codes, plus, clamp, count) };
    }

    fn columns(&self) -> usize {
        self.scales.len()
    }

    fn reaches(&self, numbers: usize) -> bool {
        numbers <= self.codes.len()
    }
}

/// Columns that a vector still has to fill.
#[inline(always)]
pub(super) fn filled(columns: usize, column: usize) -> usize {
    (columns - column).min(LANES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_the_even_neighbour() {
        let clamp = Clamp::new(10, 0, 255);
        let cases =
            [(0.5, 10), (1.5, 12), (2.5, 12), (-0.5, 10), (-1.5, 8), (2.500_001, 13), (0.0, 10)];
        for (value, right) in cases {
            assert_eq!(clamp.apply(value), right, "{value}");
        }
    }

    #[test]
    fn what_lies_outside_becomes_the_bound() {
        let clamp = Clamp::new(10, 3, 200);
        for (value, right) in
            [(-7.6, 3), (-1e30, 3), (190.4, 200), (f32::INFINITY, 200), (f32::NEG_INFINITY, 3)]
        {
            assert_eq!(clamp.apply(value), right, "{value}");
        }
    }
}
