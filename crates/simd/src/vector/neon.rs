//! Vectors of eight lanes in two registers: NEON.
#![expect(unsafe_code, reason = "intrinsics, and reads and writes through checked pointers")]

use std::arch::aarch64::{
    float32x4_t, uint32x4_t, vaddq_f32, vaddq_s32, vbicq_u32, vbslq_f32, vcgtq_f32, vcltq_f32,
    vcvtnq_s32_f32, vcvtnq_u32_f32, vdivq_f32, vdupq_n_f32, vdupq_n_s32, vfmaq_f32, vld1q_f32,
    vmulq_f32, vorrq_u32, vpaddq_f32, vreinterpretq_f32_f64, vreinterpretq_f32_s32,
    vreinterpretq_f32_u32, vreinterpretq_f64_f32, vreinterpretq_u32_f32, vreinterpretq_u32_s32,
    vrev64q_f32, vrndmq_f32, vshlq_n_s32, vshlq_n_u32, vshrq_n_u32, vst1q_f32, vst1q_u32,
    vsubq_f32, vtrn1q_f32, vtrn1q_f64, vtrn2q_f32, vtrn2q_f64, vzip1q_f32, vzip2q_f32,
};

use super::Simd;
use crate::dispatch::Kernel;
use crate::isa::Isa;

/// Proof that the CPU has NEON.
#[derive(Debug, Clone, Copy)]
pub struct Neon(());

/// Lanes 0 to 3 and 4 to 7.
type Two = [float32x4_t; 2];

impl Simd for Neon {
    type Vector = Two;

    const ISA: Isa = Isa::Neon;

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "neon")]
        fn run<K: Kernel>(simd: Neon, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: a value of the type proves that the CPU has them.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    fn zero(self) -> Two {
        self.splat(0.0)
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        [unsafe { vdupq_n_f32(value) }; 2]
    }

    #[inline(always)]
    fn multiply(self, a: Two, b: Two) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { multiply(a, b) }
    }

    #[inline(always)]
    fn multiply_add(self, sum: Two, a: Two, b: Two) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { multiply_add(sum, a, b) }
    }

    #[inline(always)]
    fn add(self, a: Two, b: Two) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { add(a, b) }
    }

    #[inline(always)]
    fn subtract(self, a: Two, b: Two) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { subtract(a, b) }
    }

    #[inline(always)]
    fn divide(self, a: Two, b: Two) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { divide(a, b) }
    }

    #[inline(always)]
    fn floor(self, a: Two) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { floor(a) }
    }

    #[inline(always)]
    fn smaller(self, a: Two, b: Two) -> Two {
        self.where_below([a, b], a, b)
    }

    #[inline(always)]
    fn larger(self, a: Two, b: Two) -> Two {
        self.where_below([b, a], a, b)
    }

    #[inline(always)]
    fn where_below(self, below: [Two; 2], then: Two, otherwise: Two) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { where_below(below, then, otherwise) }
    }

    #[inline(always)]
    fn unless_differs(self, compared: [Two; 2], then: Two) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { unless_differs(compared, then) }
    }

    #[inline(always)]
    fn power_of_two(self, n: Two) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { power_of_two(n) }
    }

    #[inline(always)]
    fn write_whole(self, to: &mut [u32], numbers: Two) {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { write(to, whole(numbers)) };
    }

    #[inline(always)]
    fn write_bytes(self, to: &mut [u32], numbers: [Two; 4]) {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { write(to, bytes(numbers)) };
    }

    #[inline(always)]
    fn write_pairs(self, to: &mut [u32], numbers: [Two; 2]) {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { write(to, pairs(numbers)) };
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Two {
        // SAFETY: the caller promises eight initialised numbers.
        let low = unsafe { vld1q_f32(from) };
        // SAFETY: these are the last four.
        let high = unsafe { vld1q_f32(from.wrapping_add(4)) };
        [low, high]
    }

    #[inline(always)]
    unsafe fn load_last(self, from: *const f32, count: usize) -> Two {
        let mut numbers = [0.0; 8];
        for (lane, number) in numbers.iter_mut().enumerate().skip(8 - count) {
            // SAFETY: the caller promises these numbers.
            *number = unsafe { from.wrapping_add(lane).read() };
        }
        // SAFETY: these are eight numbers.
        unsafe { self.load(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, [low, high]: Two) {
        // SAFETY: the caller promises eight numbers of its own.
        unsafe { vst1q_f32(to, low) };
        // SAFETY: these are the last four.
        unsafe { vst1q_f32(to.wrapping_add(4), high) };
    }

    #[inline(always)]
    unsafe fn store_last(self, to: *mut f32, vector: Two, count: usize) {
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
    unsafe fn sums(self, from: *const f32) -> Two {
        // SAFETY: the caller promises every vector.
        let rows = unsafe { self.rows(from, 8) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { sums(rows) }
    }

    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_pitch: usize, to: *mut f32, to_pitch: usize) {
        // SAFETY: the caller promises every row.
        let rows = unsafe { self.rows(from, from_pitch) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        let columns = unsafe { transposed(rows) };
        for (index, column) in columns.into_iter().enumerate() {
            // SAFETY: the caller promises every column.
            unsafe { self.store(to.wrapping_add(index * to_pitch), column) };
        }
    }

    #[inline(always)]
    fn swap_neighbors(self, a: Two) -> Two {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { swap_neighbors(a) }
    }

    #[inline(always)]
    unsafe fn load_twice(self, from: *const f32) -> Two {
        // SAFETY: the caller promises four numbers; the CPU has NEON.
        unsafe { load_twice(from) }
    }
}

impl Neon {
    /// The proof, if this CPU has them.
    #[must_use]
    pub fn detect() -> Option<Self> {
        Isa::Neon.is_available().then_some(Self(()))
    }

    /// Eight vectors, the first numbers of which lie so far apart.
    ///
    /// # Safety
    /// All of them may be read.
    #[inline(always)]
    unsafe fn rows(self, from: *const f32, pitch: usize) -> [Two; 8] {
        let mut rows = [self.zero(); 8];
        for (index, row) in rows.iter_mut().enumerate() {
            // SAFETY: the caller promises every vector.
            *row = unsafe { self.load(from.wrapping_add(index * pitch)) };
        }
        rows
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn multiply(a: Two, b: Two) -> Two {
    [vmulq_f32(a[0], b[0]), vmulq_f32(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn multiply_add(sum: Two, a: Two, b: Two) -> Two {
    [vfmaq_f32(sum[0], a[0], b[0]), vfmaq_f32(sum[1], a[1], b[1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn add(a: Two, b: Two) -> Two {
    [vaddq_f32(a[0], b[0]), vaddq_f32(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn subtract(a: Two, b: Two) -> Two {
    [vsubq_f32(a[0], b[0]), vsubq_f32(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn divide(a: Two, b: Two) -> Two {
    [vdivq_f32(a[0], b[0]), vdivq_f32(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn floor(a: Two) -> Two {
    [vrndmq_f32(a[0]), vrndmq_f32(a[1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn swap_neighbors([low, high]: Two) -> Two {
    [vrev64q_f32(low), vrev64q_f32(high)]
}

/// # Safety
/// Four numbers may be read.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_twice(from: *const f32) -> Two {
    // SAFETY: the caller promises four numbers.
    let half = unsafe { vld1q_f32(from) };
    [vzip1q_f32(half, half), vzip2q_f32(half, half)]
}

#[inline]
#[target_feature(enable = "neon")]
fn where_below([a, b]: [Two; 2], then: Two, otherwise: Two) -> Two {
    let half = |half: usize| vbslq_f32(vcltq_f32(a[half], b[half]), then[half], otherwise[half]);
    [half(0), half(1)]
}

#[inline]
#[target_feature(enable = "neon")]
fn unless_differs([a, b]: [Two; 2], then: Two) -> Two {
    let half = |half: usize| {
        let differs = vorrq_u32(vcltq_f32(a[half], b[half]), vcgtq_f32(a[half], b[half]));
        vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(then[half]), differs))
    };
    [half(0), half(1)]
}

#[inline]
#[target_feature(enable = "neon")]
fn power_of_two(n: Two) -> Two {
    let half = |n| vshlq_n_s32::<23>(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)));
    [vreinterpretq_f32_s32(half(n[0])), vreinterpretq_f32_s32(half(n[1]))]
}

#[inline]
#[target_feature(enable = "neon")]
fn whole(numbers: Two) -> [uint32x4_t; 2] {
    [vcvtnq_u32_f32(numbers[0]), vcvtnq_u32_f32(numbers[1])]
}

/// The bytes of integers, of four numbers, the first lowest.
#[inline]
#[target_feature(enable = "neon")]
fn bytes([one, two, three, four]: [Two; 4]) -> [uint32x4_t; 2] {
    let mut bytes = whole(four);
    for lower in [three, two, one] {
        for (bytes, lower) in bytes.iter_mut().zip(whole(lower)) {
            *bytes = vorrq_u32(vshlq_n_u32::<8>(*bytes), lower);
        }
    }
    bytes
}

/// The halves of integers, of two numbers, the first lowest.
#[inline]
#[target_feature(enable = "neon")]
fn pairs([low, high]: [Two; 2]) -> [uint32x4_t; 2] {
    let half = |half: usize| {
        let whole = |numbers: Two| vreinterpretq_u32_s32(vcvtnq_s32_f32(numbers[half]));
        // The upper bits of the lower number are those of its sign.
        let low = vshrq_n_u32::<16>(vshlq_n_u32::<16>(whole(low)));
        vorrq_u32(low, vshlq_n_u32::<16>(whole(high)))
    };
    [half(0), half(1)]
}

#[inline]
#[target_feature(enable = "neon")]
fn write(to: &mut [u32], [low, high]: [uint32x4_t; 2]) {
    let (to_low, to_high) = to[..8].split_at_mut(4);
    // SAFETY: the slice has room for four.
    unsafe { vst1q_u32(to_low.as_mut_ptr(), low) };
    // SAFETY: the slice has room for four.
    unsafe { vst1q_u32(to_high.as_mut_ptr(), high) };
}

#[inline]
#[target_feature(enable = "neon")]
fn sums(rows: [Two; 8]) -> Two {
    let [a, b, c, d, e, f, g, h] = rows;
    let half = |[low, high]: Two| vaddq_f32(low, high);
    let pair = |a, b| vpaddq_f32(half(a), half(b));
    [vpaddq_f32(pair(a, b), pair(c, d)), vpaddq_f32(pair(e, f), pair(g, h))]
}

/// Quarters of a square, transposed, and the two beside the diagonal exchanged.
#[inline]
#[target_feature(enable = "neon")]
fn transposed(rows: [Two; 8]) -> [Two; 8] {
    let quarter = |first: usize, half: usize| {
        let row = |index: usize| rows[first + index][half];
        let even = [vtrn1q_f32(row(0), row(1)), vtrn1q_f32(row(2), row(3))];
        let odd = [vtrn2q_f32(row(0), row(1)), vtrn2q_f32(row(2), row(3))];
        let wide =
            |[upper, lower]: Two| (vreinterpretq_f64_f32(upper), vreinterpretq_f64_f32(lower));
        let first = |(upper, lower)| vreinterpretq_f32_f64(vtrn1q_f64(upper, lower));
        let second = |(upper, lower)| vreinterpretq_f32_f64(vtrn2q_f64(upper, lower));
        [first(wide(even)), first(wide(odd)), second(wide(even)), second(wide(odd))]
    };
    let mut columns = rows;
    for (half, columns) in columns.chunks_exact_mut(4).enumerate() {
        let (upper, lower) = (quarter(0, half), quarter(4, half));
        for (column, (upper, lower)) in columns.iter_mut().zip(upper.into_iter().zip(lower)) {
            *column = [upper, lower];
        }
    }
    columns
}
