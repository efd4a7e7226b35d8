//! One source, compiled for every instruction set.

use crate::isa::Isa;
#[cfg(target_arch = "aarch64")]
use crate::vector::Neon;
#[cfg(target_arch = "x86_64")]
use crate::vector::{Avx2, Avx512};
use crate::vector::{Portable, Simd};

/// A computation that is written once for vectors of any instruction set.
///
/// [`dispatch!`](macro@crate::dispatch) makes functions of such computations; implementing the trait
/// suits those with several instances, such as one per size of a register tile.
pub trait Kernel {
    /// What is computed.
    type Output;

    /// Computes it; has to be `#[inline(always)]`, as all that it calls.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// The f32 vectors of an instruction set that this CPU has, which [`Isa::vectors`] has checked.
#[derive(Debug, Clone, Copy)]
pub enum Vectors {
    /// Rust without intrinsics.
    Portable(Portable),
    /// 8 lanes of aarch64.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    /// 8 lanes of x86-64.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// 16 lanes of x86-64.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Isa {
    /// The f32 vectors of the set.
    ///
    /// # Panics
    /// If this CPU does not have it.
    #[must_use]
    pub fn vectors(self) -> Vectors {
        let vectors = if self.is_available() {
            match self.base() {
                #[cfg(target_arch = "aarch64")]
                Self::Neon => Neon::detect().map(Vectors::Neon),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => Avx2::detect().map(Vectors::Avx2),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => Avx512::detect().map(Vectors::Avx512),
                _ => Some(Vectors::Portable(Portable)),
            }
        } else {
            None
        };
        vectors.unwrap_or_else(|| panic!("this CPU has no {self}"))
    }
}

impl Vectors {
    /// The set that they are of, a [base](Isa::base).
    #[must_use]
    pub const fn isa(self) -> Isa {
        match self {
            Self::Portable(_) => Isa::Portable,
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => Isa::Neon,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => Isa::Avx512,
        }
    }

    /// Runs a kernel with them.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Self::Portable(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => simd.vectorize(kernel),
        }
    }
}

/// Makes functions that run one source with the vectors of any instruction set.
///
/// The body is written for a value of a [`Simd`] type and compiled once per instruction set; it and
/// what it calls have to be `#[inline(always)]`. The function takes the [`Vectors`] first.
///
/// # Example
/// ```
/// use updraft_simd::{Isa, Simd, dispatch};
///
/// #[inline(always)]
/// fn add<S: Simd>(simd: S, a: &[f32], b: &[f32], sums: &mut [f32]) {
///     for ((a, b), sums) in a.chunks(S::LANES).zip(b.chunks(S::LANES)).zip(sums.chunks_mut(S::LANES)) {
///         simd.write(sums, simd.add(simd.read(a), simd.read(b)));
///     }
/// }
///
/// dispatch! {
///     /// Writes `a + b`.
///     pub fn sum(simd, a: &[f32], b: &[f32], sums: &mut [f32]) {
///         add(simd, a, b, sums);
///     }
/// }
///
/// let mut sums = [0.0; 3];
/// sum(Isa::detect().vectors(), &[1.0, 2.0, 3.0], &[0.5; 3], &mut sums);
/// assert_eq!(sums, [1.5, 2.5, 3.5]);
/// ```
#[macro_export]
macro_rules! dispatch {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($simd:ident $(, $argument:ident: $type:ty)* $(,)?)
        $(-> $result:ty)? $body:block
    )+) => {$(
        $(#[$meta])*
        $vis fn $name(vectors: $crate::Vectors $(, $argument: $type)*) $(-> $result)? {
            #[allow(unused_variables, reason = "loops that compilers make vectors of")]
            fn portable($simd: $crate::Portable $(, $argument: $type)*) $(-> $result)? $body

            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon")]
            #[allow(unused_variables, reason = "loops that compilers make vectors of")]
            fn neon($simd: $crate::Neon $(, $argument: $type)*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(unused_variables, reason = "loops that compilers make vectors of")]
            fn avx2($simd: $crate::Avx2 $(, $argument: $type)*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl")]
            #[allow(unused_variables, reason = "loops that compilers make vectors of")]
            fn avx512($simd: $crate::Avx512 $(, $argument: $type)*) $(-> $result)? $body

            match vectors {
                $crate::Vectors::Portable(simd) => portable(simd $(, $argument)*),
                #[cfg(target_arch = "aarch64")]
                // SAFETY: the value proves that the CPU has them.
                $crate::Vectors::Neon(simd) => unsafe { neon(simd $(, $argument)*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the value proves that the CPU has them.
                $crate::Vectors::Avx2(simd) => unsafe { avx2(simd $(, $argument)*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the value proves that the CPU has them.
                $crate::Vectors::Avx512(simd) => unsafe { avx512(simd $(, $argument)*) },
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_those_of_the_set() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            assert_eq!(isa.vectors().isa(), isa.base(), "{isa}");
        }
    }
}
