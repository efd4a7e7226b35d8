//! Vectors without intrinsics.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use super::Simd;
use crate::dispatch::Kernel;
use crate::isa::Isa;

/// Adding it leaves a whole number, of less than 22 bits, in the lowest bits.
const ROUNDER: f32 = 12_582_912.0;

/// Eight numbers, which compilers put into whatever vectors the target has.
#[derive(Debug, Clone, Copy)]
pub struct Portable;

impl Simd for Portable {
    type Vector = [f32; 8];

    const ISA: Isa = Isa::Portable;

    #[inline(never)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn zero(self) -> [f32; 8] {
        [0.0; 8]
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn multiply(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn multiply_add(self, sum: [f32; 8], a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        self.add(sum, self.multiply(a, b))
    }

    #[inline(always)]
    fn add(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn subtract(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn divide(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn floor(self, a: [f32; 8]) -> [f32; 8] {
        // No call for each lane, as of `f32::floor` where the target has no instruction.
        let nearest = zip(a, [ROUNDER; 8], |a, rounder| (a + rounder) - rounder);
        zip(nearest, a, |nearest, a| nearest - if nearest > a { 1.0 } else { 0.0 })
    }

    #[inline(always)]
    fn smaller(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        zip(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn larger(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        zip(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn where_below(self, [a, b]: [[f32; 8]; 2], then: [f32; 8], otherwise: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|lane| if a[lane] < b[lane] { then[lane] } else { otherwise[lane] })
    }

    #[inline(always)]
    fn unless_differs(self, [a, b]: [[f32; 8]; 2], then: [f32; 8]) -> [f32; 8] {
        let differs = |lane: usize| (a[lane] < b[lane]) | (a[lane] > b[lane]);
        std::array::from_fn(|lane| if differs(lane) { 0.0 } else { then[lane] })
    }

    #[inline(always)]
    fn power_of_two(self, n: [f32; 8]) -> [f32; 8] {
        // 127 more than `n` in the lowest bits, then in those of the exponent.
        n.map(|n| f32::from_bits((n + (ROUNDER + 127.0)).to_bits() << 23))
    }

    #[inline(always)]
    fn write_whole(self, to: &mut [u32], numbers: [f32; 8]) {
        let whole = numbers.map(|number| (number + ROUNDER).to_bits() & 0x3F_FFFF);
        to[..8].copy_from_slice(&whole);
    }

    #[inline(always)]
    fn write_bytes(self, to: &mut [u32], numbers: [[f32; 8]; 4]) {
        for (lane, to) in to[..8].iter_mut().enumerate() {
            let byte = |number: [f32; 8]| ((number[lane] + ROUNDER).to_bits() & 0xFF) as u8;
            *to = u32::from_le_bytes(numbers.map(byte));
        }
    }

    #[inline(always)]
    fn write_pairs(self, to: &mut [u32], numbers: [[f32; 8]; 2]) {
        for (lane, to) in to[..8].iter_mut().enumerate() {
            let [low, high] = numbers.map(|number| (number[lane] + ROUNDER).to_bits() & 0xFFFF);
            *to = low | high << 16;
        }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> [f32; 8] {
        // SAFETY: the caller promises eight initialised numbers; f32s need no more alignment.
        unsafe { from.cast::<[f32; 8]>().read() }
    }

    #[inline(always)]
    unsafe fn load_last(self, from: *const f32, count: usize) -> [f32; 8] {
        let mut numbers = [0.0; 8];
        for (lane, number) in numbers.iter_mut().enumerate().skip(8 - count) {
            // SAFETY: the caller promises these numbers.
            *number = unsafe { from.wrapping_add(lane).read() };
        }
        // SAFETY: these are eight numbers.
        unsafe { self.load(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: [f32; 8]) {
        // SAFETY: the caller promises eight numbers of its own; f32s need no more alignment.
        unsafe { to.cast::<[f32; 8]>().write(vector) };
    }

    #[inline(always)]
    unsafe fn store_last(self, to: *mut f32, vector: [f32; 8], count: usize) {
        if count == Self::LANES {
            // SAFETY: the caller promises all of them.
            return unsafe { self.store(to, vector) };
        }
        let mut numbers = [0.0; 8];
        // SAFETY: there is room for eight numbers.
        unsafe { self.store(numbers.as_mut_ptr(), vector) };
        for (lane, number) in numbers.into_iter().enumerate().skip(8 - count) {
            // SAFETY: the caller promises these numbers.
            unsafe { to.wrapping_add(lane).write(number) };
        }
    }

    #[inline(always)]
    fn in_order(self) {}

    #[inline(always)]
    unsafe fn sums(self, from: *const f32) -> [f32; 8] {
        let mut sums = [0.0; 8];
        for (index, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises every vector.
            let [a, b, c, d, e, f, g, h] = unsafe { self.load(from.wrapping_add(index * 8)) };
            *sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
        }
        sums
    }

    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_pitch: usize, to: *mut f32, to_pitch: usize) {
        let mut rows = [self.zero(); 8];
        for (index, row) in rows.iter_mut().enumerate() {
            // SAFETY: the caller promises every row.
            *row = unsafe { self.load(from.wrapping_add(index * from_pitch)) };
        }
        for index in 0..8 {
            let column = rows.map(|row| row[index]);
            // SAFETY: the caller promises every column.
            unsafe { self.store(to.wrapping_add(index * to_pitch), column) };
        }
    }

    #[inline(always)]
    fn swap_neighbors(self, a: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|lane| a[lane ^ 1])
    }

    #[inline(always)]
    unsafe fn load_twice(self, from: *const f32) -> [f32; 8] {
        // SAFETY: the caller promises four numbers.
        let half = unsafe { from.cast::<[f32; 4]>().read() };
        std::array::from_fn(|lane| half[lane / 2])
    }
}

/// A loop, because compilers do not vectorize `array::from_fn`.
#[inline(always)]
fn zip(a: [f32; 8], b: [f32; 8], function: impl Fn(f32, f32) -> f32) -> [f32; 8] {
    let mut result = a;
    for lane in 0..8 {
        result[lane] = function(a[lane], b[lane]);
    }
    result
}
