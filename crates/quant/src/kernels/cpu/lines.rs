//! Loops over numbers side by side, compiled once for each instruction set.
//!
//! Sums wrap, although none leaves 32 bits: a check, which builds for tests have, would keep a loop
//! out of vectors.
#![expect(unsafe_code, reason = "calls into code for vector extensions that were checked")]

use updraft_simd::Isa;

use super::sink::Clamp;

/// One loop over lines of equal length.
pub(crate) trait Line {
    /// Plain Rust, `#[inline(always)]`, so that each set compiles it for its own vectors.
    fn run(self);
}

/// Runs a loop with an instruction set.
///
/// # Panics
/// If the CPU does not have `isa`.
pub(crate) fn run<L: Line>(isa: Isa, line: L) {
    assert!(isa.is_available(), "this CPU has no {isa}");
    match isa.dot() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the path is available.
        Isa::Avx512Vnni => unsafe { super::avx512::line(line) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the path is available.
        Isa::AvxVnni => unsafe { super::avx_vnni::line(line) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the path is available.
        Isa::Avx2 => unsafe { super::avx2::line(line) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the same.
        Isa::NeonDot => unsafe { super::neon_dot::line(line) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the same.
        Isa::Neon => unsafe { super::neon::line(line) },
        _ => super::portable::line(line),
    }
}

/// `to = zero + round(from / scale)`, clamped.
#[derive(Debug)]
pub(crate) struct Quantize<'a> {
    pub(crate) from: &'a [f32],
    pub(crate) scale: f32,
    pub(crate) clamp: Clamp,
    pub(crate) to: &'a mut [u8],
}

impl Line for Quantize<'_> {
    #[inline(always)]
    fn run(self) {
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

impl Line for Dequantize<'_> {
    #[inline(always)]
    fn run(self) {
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

impl Line for Add<'_> {
    #[inline(always)]
    fn run(self) {
        for ((to, a), b) in self.to.iter_mut().zip(self.a).zip(self.b) {
            let sum = f32::from(*a) * self.factors[0] + f32::from(*b) * self.factors[1];
            *to = self.clamp.apply(sum + self.offset);
        }
    }
}

/// `to = clamp((a − zeros[0])·(b − zeros[1])·factor)`; `b` is as long as `a`, or begins anew each
/// time that it ends.
#[derive(Debug)]
pub(crate) struct Multiply<'a> {
    pub(crate) a: &'a [u8],
    pub(crate) b: &'a [u8],
    pub(crate) zeros: [i32; 2],
    pub(crate) factor: f32,
    pub(crate) clamp: Clamp,
    pub(crate) to: &'a mut [u8],
}

impl Line for Multiply<'_> {
    #[inline(always)]
    fn run(self) {
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

impl Line for Maximum<'_> {
    #[inline(always)]
    fn run(self) {
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

impl Line for Accumulate<'_> {
    #[inline(always)]
    fn run(self) {
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

impl Line for Blend<'_> {
    #[inline(always)]
    fn run(self) {
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

impl Line for Rescale<'_> {
    #[inline(always)]
    fn run(self) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = self.clamp.apply(from.wrapping_add(self.offset) as f32 * self.factor);
        }
    }
}

/// A set's `line`.
macro_rules! entries {
    () => {
        /// Runs a loop.
        pub(super) fn line<L: lines::Line>(line: L) {
            line.run();
        }
    };
    ($(#[$feature:meta])+) => {
        /// Runs a loop.
        ///
        /// # Safety
        /// The CPU has what this set needs.
        $(#[$feature])+
        pub(super) unsafe fn line<L: lines::Line>(line: L) {
            line.run();
        }
    };
}
pub(super) use entries;
