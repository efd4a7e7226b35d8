//! Loops over contiguous numbers, compiled once for each instruction set.
//!
//! Sums wrap, although none exceeds 32 bits: an overflow check would prevent vectorization of a
//! loop in builds that have them.

use updraft_simd::{Clamp, Int8, Int8Kernel};

/// `to = zero + round(from / scale)`, clamped.
#[derive(Debug)]
pub(crate) struct Quantize<'a> {
    pub(crate) from: &'a [f32],
    pub(crate) scale: f32,
    pub(crate) clamp: Clamp,
    pub(crate) to: &'a mut [u8],
}

impl Int8Kernel for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, _: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = self.clamp.apply(from / self.scale);
        }
    }
}

/// `to = (from − zero) · scale`.
#[derive(Debug)]
pub(crate) struct Dequantize<'a> {
    pub(crate) from: &'a [u8],
    pub(crate) scale: f32,
    pub(crate) zero: u8,
    pub(crate) to: &'a mut [f32],
}

impl Int8Kernel for Dequantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, _: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = (i32::from(*from) - i32::from(self.zero)) as f32 * self.scale;
        }
    }
}

/// `to = clamp(a·factors[0] + b·factors[1] + offset)`.
#[derive(Debug)]
pub(crate) struct Add<'a> {
    pub(crate) a: &'a [u8],
    pub(crate) b: &'a [u8],
    pub(crate) factors: [f32; 2],
    pub(crate) offset: f32,
    pub(crate) clamp: Clamp,
    pub(crate) to: &'a mut [u8],
}

impl Int8Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, _: S) {
        for ((to, a), b) in self.to.iter_mut().zip(self.a).zip(self.b) {
            let sum = f32::from(*a) * self.factors[0] + f32::from(*b) * self.factors[1];
            *to = self.clamp.apply(sum + self.offset);
        }
    }
}

/// `to = clamp((a − zeros[0])·(b − zeros[1])·factor)`; `b` is as long as `a`, or is repeated
/// to its length.
#[derive(Debug)]
pub(crate) struct Multiply<'a> {
    pub(crate) a: &'a [u8],
    pub(crate) b: &'a [u8],
    pub(crate) zeros: [i32; 2],
    pub(crate) factor: f32,
    pub(crate) clamp: Clamp,
    pub(crate) to: &'a mut [u8],
}

impl Int8Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, _: S) {
        let len = self.b.len().max(1);
        for (to, a) in self.to.chunks_exact_mut(len).zip(self.a.chunks_exact(len)) {
            for ((to, a), b) in to.iter_mut().zip(a).zip(self.b) {
                let a = i32::from(*a).wrapping_sub(self.zeros[0]);
                let b = i32::from(*b).wrapping_sub(self.zeros[1]);
                *to = self.clamp.apply(a.wrapping_mul(b) as f32 * self.factor);
            }
        }
    }
}

/// `to = max(to, from)`.
#[derive(Debug)]
pub(crate) struct Maximum<'a> {
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a mut [u8],
}

impl Int8Kernel for Maximum<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, _: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = (*to).max(*from);
        }
    }
}

/// `to = to + from`.
#[derive(Debug)]
pub(crate) struct Accumulate<'a> {
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a mut [i32],
}

impl Int8Kernel for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, _: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = to.wrapping_add(i32::from(*from));
        }
    }
}

/// `to = clamp((Σ from·weights + offset) · factor)`, of four lines.
#[derive(Debug)]
pub(crate) struct Blend<'a> {
    pub(crate) from: [&'a [u8]; 4],
    pub(crate) weights: [i32; 4],
    pub(crate) offset: i32,
    pub(crate) factor: f32,
    pub(crate) clamp: Clamp,
    pub(crate) to: &'a mut [u8],
}

impl Int8Kernel for Blend<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, _: S) {
        let [a, b, c, d] = self.from;
        for ((((to, a), b), c), d) in self.to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            let all = [*a, *b, *c, *d].map(i32::from).into_iter().zip(self.weights);
            let sum = all.fold(self.offset, |sum, (code, weight)| {
                sum.wrapping_add(code.wrapping_mul(weight))
            });
            *to = self.clamp.apply(sum as f32 * self.factor);
        }
    }
}

/// `to = clamp((from + offset) · factor)`.
#[derive(Debug)]
pub(crate) struct Rescale<'a> {
    pub(crate) from: &'a [i32],
    pub(crate) offset: i32,
    pub(crate) factor: f32,
    pub(crate) clamp: Clamp,
    pub(crate) to: &'a mut [u8],
}

impl Int8Kernel for Rescale<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, _: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = self.clamp.apply(from.wrapping_add(self.offset) as f32 * self.factor);
        }
    }
}
