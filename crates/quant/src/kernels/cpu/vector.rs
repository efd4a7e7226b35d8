//! What the inner loops need of sixteen sums side by side.
#![expect(unsafe_code, reason = "vectors are read and written through pointers")]

use super::sink::{Clamp, Plus};

/// Sums in one vector, with every set.
pub(crate) const LANES: usize = 16;

/// Vector instructions of one kind; a value of the type proves that the CPU has them.
///
/// Sums wrap around: an overflow on the way is undone by the end, which fits by construction.
pub(crate) trait Simd: Copy {
    /// [`LANES`] sums.
    type Sums: Copy;
    /// Four signed weights for each lane.
    type Weights: Copy;
    /// Four unsigned activations, the same for all lanes.
    type Quad: Copy;

    fn zero(self) -> Self::Sums;

    fn add(self, a: Self::Sums, b: Self::Sums) -> Self::Sums;

    /// `sums + Σ quad[i]·weights[i]`, lane by lane.
    fn dot(self, sums: Self::Sums, quad: Self::Quad, weights: Self::Weights) -> Self::Sums;

    /// `sums + a·b`, lane by lane; `a` holds unsigned bytes and `b` signed ones.
    fn multiply_add(self, sums: Self::Sums, a: Self::Sums, b: Self::Sums) -> Self::Sums;

    /// Asks for the cache line of an address, which need not exist.
    #[inline(always)]
    fn prefetch(self, _at: *const u8) {}

    /// The same pointer, of which the compiler no longer knows where it came from.
    ///
    /// Pointers that it knows to be equally far apart it replaces by one, to which it adds again
    /// and again; the additions then take the place of products.
    #[inline(always)]
    fn hide(self, at: *const u8) -> *const u8 {
        at
    }

    /// Reads [`LANES`] sums.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn load(self, from: *const i32) -> Self::Sums;

    /// Reads 4 × [`LANES`] weights.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn weights(self, from: *const i8) -> Self::Weights;

    /// Reads four activations.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn spread(self, from: *const u8) -> Self::Quad;

    /// Reads [`LANES`] unsigned bytes.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn widen(self, from: *const u8) -> Self::Sums;

    /// Reads [`LANES`] signed bytes.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn widen_signed(self, from: *const i8) -> Self::Sums;

    /// Writes the first `count` sums.
    ///
    /// # Safety
    /// `to` has room for them, and nothing else uses it meanwhile.
    unsafe fn store(self, to: *mut i32, sums: Self::Sums, count: usize);

    /// Writes `sum · scale` of the first `count` lanes.
    ///
    /// # Safety
    /// `to` has room for them, nothing else uses it meanwhile, and `scales` has [`LANES`] numbers.
    unsafe fn store_scaled(self, to: *mut f32, sums: Self::Sums, scales: *const f32, count: usize);

    /// Writes `clamp(sum · scale)`, rounded to even, of the first `count` lanes.
    ///
    /// # Safety
    /// `to` has room for them, nothing else uses it meanwhile, and `scales` has [`LANES`] numbers.
    unsafe fn store_clamped(
        self,
        to: *mut u8,
        sums: Self::Sums,
        scales: *const f32,
        clamp: Clamp,
        count: usize,
    );

    /// Writes `clamp(sum · scale + plus(code))`, rounded to even, of the first `count` lanes.
    ///
    /// # Safety
    /// As of [`store_clamped`](Simd::store_clamped), and there are `count` codes.
    #[expect(clippy::too_many_arguments, reason = "one instruction's worth of operands each")]
    unsafe fn store_summed(
        self,
        to: *mut u8,
        sums: Self::Sums,
        scales: *const f32,
        codes: *const u8,
        plus: Plus,
        clamp: Clamp,
        count: usize,
    );
}
