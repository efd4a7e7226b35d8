//! What the inner loops need of a vector.
#![expect(unsafe_code, reason = "vectors are read and written through pointers")]

/// Vector instructions of one kind; a value of the type proves that the CPU has them.
pub(super) trait Simd: Copy {
    /// Some numbers side by side.
    type Vector: Copy;

    /// How many.
    const LANES: usize;

    /// All zeros.
    fn zero(self) -> Self::Vector;

    /// One number in every lane.
    fn splat(self, value: f32) -> Self::Vector;

    /// `sum + a·b`, lane by lane.
    fn multiply_add(self, sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `a + b`, lane by lane.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Whether all lanes are 0, with either sign.
    fn is_zero(self, vector: Self::Vector) -> bool;

    /// Reads [`LANES`](Self::LANES) numbers.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn load(self, from: *const f32) -> Self::Vector;

    /// Zeros, and behind them the last `count` numbers of what [`load`](Self::load) would read.
    ///
    /// # Safety
    /// Those lie in one allocation and are initialised; `count` is 1 to the lanes.
    unsafe fn load_last(self, from: *const f32, count: usize) -> Self::Vector;

    /// Writes [`LANES`](Self::LANES) numbers.
    ///
    /// # Safety
    /// They lie in one allocation that nothing else uses meanwhile.
    unsafe fn store(self, to: *mut f32, vector: Self::Vector);

    /// Writes the last `count` numbers to where [`store`](Self::store) would.
    ///
    /// # Safety
    /// Those lie in one allocation that nothing else uses meanwhile; `count` is 1 to the lanes.
    unsafe fn store_last(self, to: *mut f32, vector: Self::Vector, count: usize);

    /// Writes the transpose of a square of [`LANES`](Self::LANES) rows and columns.
    ///
    /// # Safety
    /// All rows may be read, at `from + row · from_pitch`, and all columns written, at
    /// `to + column · to_pitch`; they do not overlap.
    unsafe fn transpose(self, from: *const f32, from_pitch: usize, to: *mut f32, to_pitch: usize);
}
