//! The trait of vectors for int8 arithmetic.
#![expect(unsafe_code, reason = "vectors are read and written through pointers")]

use super::requantize::{Clamp, Plus};
use super::run::Int8Kernel;
use crate::isa::Isa;

/// Number of lanes of an [`Int8`] vector on every instruction set.
pub const INT8_LANES: usize = 16;

/// Vectors of sixteen 32-bit lanes for int8 dot products on one instruction set; a value of the
/// type proves that the CPU has the instructions.
///
/// A lane contains a sum, four bytes (the first one lowest), or two 16-bit numbers. All instruction
/// sets return the same bits. Sums wrap around, so an intermediate overflow does no harm if the
/// final sum fits into 32 bits.
pub trait Int8: Copy + Send + Sync + 'static {
    /// The instruction set, one of [`Isa::DOTS`].
    const ISA: Isa;

    /// [`INT8_LANES`] lanes.
    type Lanes: Copy;

    /// Four signed bytes in each lane, prepared for [`dot`](Self::dot).
    type Weights: Copy;

    /// Four unsigned bytes, the same for all lanes, prepared for [`dot`](Self::dot).
    type Quad: Copy;

    /// Runs a kernel in a separate function that is compiled for these instructions.
    ///
    /// [`Int8Kernel::run`] and all functions that it calls must be `#[inline(always)]`: functions
    /// that are not inlined are compiled without the instructions.
    fn vectorize<K: Int8Kernel>(self, kernel: K) -> K::Output;

    /// All zeros.
    fn zero(self) -> Self::Lanes;

    /// One number in every lane.
    fn splat(self, value: i32) -> Self::Lanes;

    /// `a + b`, lane by lane.
    fn add(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;

    /// `sums + Σ quad[i]·weights[i]`, lane by lane.
    fn dot(self, sums: Self::Lanes, quad: Self::Quad, weights: Self::Weights) -> Self::Lanes;

    /// `sums + Σ bytes[i]·weights[i]` of four unsigned and four signed bytes, lane by lane, if the
    /// sum of the first two products and the sum of the last two each fit into 16 bits.
    fn dot_within_16_bits(
        self,
        sums: Self::Lanes,
        bytes: Self::Lanes,
        weights: Self::Lanes,
    ) -> Self::Lanes;

    /// `sums + Σ a[i]·b[i]` of two signed 16-bit numbers, lane by lane.
    fn dot_pairs(self, sums: Self::Lanes, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;

    /// `sums + a·b`, lane by lane, for unsigned bytes `a` read by [`widen`](Self::widen) and signed
    /// bytes `b` read by [`widen_signed`](Self::widen_signed).
    #[inline(always)]
    fn multiply_add(self, sums: Self::Lanes, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes {
        // The high 16 bits of each lane of `a` are zero.
        self.dot_pairs(sums, a, b)
    }

    /// Prefetches the cache line of an address if that saves time; the address may be invalid.
    #[inline(always)]
    fn prefetch(self, _at: *const u8) {}

    /// Returns the same pointer, but hides its origin from the compiler.
    ///
    /// The compiler would otherwise replace equally spaced pointers by one pointer and repeated
    /// additions, which take execution slots of the products.
    #[inline(always)]
    fn hide(self, at: *const u8) -> *const u8 {
        at
    }

    /// Reads [`INT8_LANES`] lanes.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn load(self, from: *const i32) -> Self::Lanes;

    /// Reads 4 × [`INT8_LANES`] weights.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn weights(self, from: *const i8) -> Self::Weights;

    /// Reads four bytes.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn quad(self, from: *const u8) -> Self::Quad;

    /// Reads [`INT8_LANES`] unsigned bytes.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn widen(self, from: *const u8) -> Self::Lanes;

    /// Reads [`INT8_LANES`] signed bytes.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn widen_signed(self, from: *const i8) -> Self::Lanes;

    /// Writes the first `count` lanes.
    ///
    /// # Safety
    /// `to` has room for them, and nothing else uses it meanwhile.
    unsafe fn store(self, to: *mut i32, sums: Self::Lanes, count: usize);

    /// Adds `sum · factor` of all lanes to the numbers at `to`, rounded twice.
    ///
    /// # Safety
    /// `to` has [`INT8_LANES`] numbers, and nothing else uses it meanwhile.
    unsafe fn add_scaled(self, to: *mut f32, sums: Self::Lanes, factor: f32);

    /// Writes `sum · scale` of the first `count` lanes.
    ///
    /// # Safety
    /// `to` has room for them, nothing else uses it meanwhile, and there are [`INT8_LANES`]
    /// `scales`.
    unsafe fn store_scaled(self, to: *mut f32, sums: Self::Lanes, scales: *const f32, count: usize);

    /// Writes `clamp(sum · scale)`, rounded to even, of the first `count` lanes.
    ///
    /// # Safety
    /// As for [`store_scaled`](Self::store_scaled).
    unsafe fn store_clamped(
        self,
        to: *mut u8,
        sums: Self::Lanes,
        scales: *const f32,
        clamp: Clamp,
        count: usize,
    );

    /// Writes `clamp(sum · scale + plus(code))`, rounded to even, of the first `count` lanes.
    ///
    /// # Safety
    /// As for [`store_scaled`](Self::store_scaled), and there are `count` codes.
    #[expect(clippy::too_many_arguments, reason = "one instruction's worth of operands each")]
    unsafe fn store_summed(
        self,
        to: *mut u8,
        sums: Self::Lanes,
        scales: *const f32,
        codes: *const u8,
        plus: Plus,
        clamp: Clamp,
        count: usize,
    );
}
