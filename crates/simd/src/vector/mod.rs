//! Vectors of f32: one trait, one file per instruction set.
#![expect(unsafe_code, reason = "vectors are read and written through pointers")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use portable::Portable;

use std::sync::atomic::{Ordering, compiler_fence};

use crate::dispatch::Kernel;
use crate::isa::Isa;

/// Numbers of the widest vector.
pub const MAX_LANES: usize = 16;

/// Vectors of f32 of one instruction set; a value of the type proves that the CPU has them.
///
/// All sets compute the same; they differ in the number of lanes and, on the portable one, in the
/// rounding of the product in [`multiply_add`](Self::multiply_add).
pub trait Simd: Copy + Send + Sync + 'static {
    /// The set that they are of, a [base](Isa::base).
    const ISA: Isa;

    /// Numbers of a vector.
    const LANES: usize = Self::ISA.lanes();

    /// A vector of numbers.
    type Vector: Copy;

    /// Runs a kernel that is compiled for these instructions, as a function of its own.
    ///
    /// [`Kernel::run`] and what it calls have to be `#[inline(always)]`: functions that are not
    /// become part of it are compiled without the instructions.
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output;

    /// All zeros.
    fn zero(self) -> Self::Vector;

    /// One number in every lane.
    fn splat(self, value: f32) -> Self::Vector;

    /// `a·b`, lane by lane.
    fn multiply(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `sum + a·b`, lane by lane.
    fn multiply_add(self, sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `a + b`, lane by lane.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `a − b`, lane by lane.
    fn subtract(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `a / b`, lane by lane.
    fn divide(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The greatest whole number not above `a`, if `|a| < 2²²`; else a number of that size and sign.
    fn floor(self, a: Self::Vector) -> Self::Vector;

    /// `a` where it is less than `b`, else `b`, also where one is NaN.
    fn smaller(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `a` where it is more than `b`, else `b`, also where one is NaN.
    fn larger(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `then` where `a < b` of two numbers `[a, b]`, else `otherwise`, also where one is NaN.
    fn where_below(
        self,
        below: [Self::Vector; 2],
        then: Self::Vector,
        otherwise: Self::Vector,
    ) -> Self::Vector;

    /// `then` unless `a` and `b` of two numbers `[a, b]` differ, and 0 where they do; NaN differs
    /// from nothing.
    fn unless_differs(self, compared: [Self::Vector; 2], then: Self::Vector) -> Self::Vector;

    /// `2ⁿ` of whole numbers `n` from −126 to 127; 0 of −127 and infinity of 128.
    fn power_of_two(self, n: Self::Vector) -> Self::Vector;

    /// Writes whole numbers, from 0 to 2²², as integers.
    ///
    /// # Panics
    /// If there is no room for a vector.
    fn write_whole(self, to: &mut [u32], numbers: Self::Vector);

    /// Rounds numbers from 0 to 255 to the nearest integers, and writes each four lanes of the same
    /// place as the bytes of one number, the first lowest.
    ///
    /// # Panics
    /// If there is no room for a vector.
    fn write_bytes(self, to: &mut [u32], numbers: [Self::Vector; 4]);

    /// The same of two numbers from −2¹⁵ to 2¹⁵ − 1, of which each becomes 16 bits; NaN becomes 0.
    ///
    /// # Panics
    /// If there is no room for a vector.
    fn write_pairs(self, to: &mut [u32], numbers: [Self::Vector; 2]);

    /// Whether all lanes are 0, with either sign.
    #[inline(always)]
    fn is_zero(self, vector: Self::Vector) -> bool {
        let mut numbers = [0.0; MAX_LANES];
        // SAFETY: no vector is wider.
        unsafe { self.store(numbers.as_mut_ptr(), vector) };
        numbers == [0.0; MAX_LANES]
    }

    /// Reads [`LANES`](Self::LANES) numbers.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn load(self, from: *const f32) -> Self::Vector;

    /// Zeros, followed by the last `count` numbers of those that [`load`](Self::load) would read.
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

    /// The sum over the lanes of each of [`LANES`](Self::LANES) vectors that lie in a row.
    ///
    /// # Safety
    /// All of them may be read.
    unsafe fn sums(self, from: *const f32) -> Self::Vector;

    /// Writes the transpose of a square of [`LANES`](Self::LANES) rows and columns, column by column:
    /// what a column has in common with the next one becomes that one's.
    ///
    /// # Safety
    /// All rows may be read, at `from + row · from_pitch`, and all columns written, at
    /// `to + column · to_pitch`; rows and columns do not overlap.
    unsafe fn transpose(self, from: *const f32, from_pitch: usize, to: *mut f32, to_pitch: usize);

    /// Exchanges the lanes of each pair of neighbors.
    fn swap_neighbors(self, a: Self::Vector) -> Self::Vector;

    /// Reads half a vector, each number into two neighboring lanes.
    ///
    /// # Safety
    /// Half of [`LANES`](Self::LANES) numbers may be read.
    unsafe fn load_twice(self, from: *const f32) -> Self::Vector;

    /// Writes the indices at which `keys` holds `wanted`, in rising order, and returns how many.
    ///
    /// What lies behind them in `to` is overwritten too.
    ///
    /// # Panics
    /// If `to` has no room for a vector behind them.
    #[inline(always)]
    fn indices_of(self, keys: &[u32], wanted: u32, to: &mut [u32]) -> usize {
        let mut found = 0;
        for (index, &key) in keys.iter().enumerate() {
            to[found] = index as u32;
            found += usize::from(key == wanted);
        }
        found
    }

    /// The same address, in one register: an operand at a base plus an index takes its instruction
    /// apart, and compilers like to make such operands.
    #[inline(always)]
    fn one_address(self, place: *const f32) -> *const f32 {
        place
    }

    /// Keeps what comes before from mixing with what follows: compilers that order the products anew
    /// hold more values than there are registers.
    #[inline(always)]
    fn in_order(self) {
        compiler_fence(Ordering::SeqCst);
    }

    /// Fetches the cache line of an address, which need not exist, ahead of its use.
    #[inline(always)]
    fn prefetch(self, place: *const f32) {
        crate::prefetch(place);
    }

    /// Reads the first numbers of a slice, and zeros where it is shorter than a vector.
    #[inline(always)]
    fn read(self, from: &[f32]) -> Self::Vector {
        if from.len() >= Self::LANES {
            // SAFETY: the slice has a vector's numbers.
            return unsafe { self.load(from.as_ptr()) };
        }
        let mut numbers = [0.0; MAX_LANES];
        numbers[..from.len()].copy_from_slice(from);
        // SAFETY: no vector is wider.
        unsafe { self.load(numbers.as_ptr()) }
    }

    /// Writes the first numbers of a vector, as many as the slice has.
    #[inline(always)]
    fn write(self, to: &mut [f32], vector: Self::Vector) {
        if to.len() >= Self::LANES {
            // SAFETY: the slice has room for a vector.
            unsafe { self.store(to.as_mut_ptr(), vector) };
            return;
        }
        let mut numbers = [0.0; MAX_LANES];
        // SAFETY: no vector is wider.
        unsafe { self.store(numbers.as_mut_ptr(), vector) };
        to.copy_from_slice(&numbers[..to.len()]);
    }
}
