//! The output of sums: unchanged, as f32, or as int8 codes.
#![expect(unsafe_code, reason = "numbers are written through pointers")]

use updraft_simd::{Clamp, INT8_LANES as LANES, Int8, Plus};

/// Takes the sums of one vector.
pub(crate) trait Sink: Copy {
    /// The type that is written.
    type Number;

    /// Writes the first `count` sums of a vector whose first column is `column` to position `at`
    /// of an output.
    ///
    /// # Safety
    /// The output has `count` numbers from `at` on that nothing else uses meanwhile, the sink knows
    /// `column` and the [`LANES`] columns from there on, and it [reaches](Sink::reaches) as far.
    unsafe fn put<S: Int8>(
        self,
        simd: S,
        sums: S::Lanes,
        column: usize,
        output: *mut Self::Number,
        at: usize,
        count: usize,
    );

    /// The number of columns of the sink.
    fn columns(&self) -> usize;

    /// Whether it covers the first `numbers` positions of an output.
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
    unsafe fn put<S: Int8>(
        self,
        simd: S,
        sums: S::Lanes,
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
    unsafe fn put<S: Int8>(
        self,
        simd: S,
        sums: S::Lanes,
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

/// One factor for each column, then int8 codes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requantized<'a> {
    pub(crate) scales: &'a [f32],
    pub(crate) clamp: Clamp,
}

impl Sink for Requantized<'_> {
    type Number = u8;

    #[inline(always)]
    unsafe fn put<S: Int8>(
        self,
        simd: S,
        sums: S::Lanes,
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

/// One factor for each column, a code for each number that is added, then int8 codes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summed<'a> {
    pub(crate) scales: &'a [f32],
    pub(crate) plus: Plus,
    /// At the positions of the output.
    pub(crate) codes: &'a [u8],
    pub(crate) clamp: Clamp,
}

impl Sink for Summed<'_> {
    type Number = u8;

    #[inline(always)]
    unsafe fn put<S: Int8>(
        self,
        simd: S,
        sums: S::Lanes,
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

/// The number of columns left for a vector.
#[inline(always)]
pub(super) fn filled(columns: usize, column: usize) -> usize {
    (columns - column).min(LANES)
}
