//! Weighted sums of whole tensors, and their gradients.
#![expect(unsafe_code, reason = "functions for the vector instructions of a path")]

use super::norm;
use crate::kernels::Path;

/// `y = weight·x`.
#[inline(always)]
pub(super) fn scale(weight: f32, x: &[f32], y: &mut [f32]) {
    for (&x, y) in x.iter().zip(y) {
        *y = weight * x;
    }
}

/// `y += weight·x`.
#[inline(always)]
pub(super) fn add(weight: f32, x: &[f32], y: &mut [f32]) {
    for (&x, y) in x.iter().zip(y) {
        *y += weight * x;
    }
}

/// `Σ a·b`, lane by lane in f32, then the lanes in f64.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let [sum] = norm::sums([a, b], |[a, b]| [a * b]);
    sum
}

/// The functions of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SumKernels {
    pub(super) scale: unsafe fn(f32, &[f32], &mut [f32]),
    pub(super) add: unsafe fn(f32, &[f32], &mut [f32]),
    pub(super) dot: unsafe fn(&[f32], &[f32]) -> f64,
}

impl SumKernels {
    /// Those of a path.
    ///
    /// # Panics
    /// If the path is not available on this CPU.
    pub(crate) fn of(path: Path) -> Self {
        assert!(path.is_available(), "this CPU has no {path}");
        match path {
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => super::avx512::SUM,
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => super::avx2::SUM,
            _ => super::portable::SUM,
        }
    }

    pub(crate) fn scale(&self, weight: f32, x: &[f32], y: &mut [f32]) {
        // SAFETY: `of` has checked the CPU, here and below.
        unsafe { (self.scale)(weight, x, y) };
    }

    pub(crate) fn add(&self, weight: f32, x: &[f32], y: &mut [f32]) {
        // SAFETY: see `scale`.
        unsafe { (self.add)(weight, x, y) };
    }

    pub(crate) fn dot(&self, a: &[f32], b: &[f32]) -> f64 {
        // SAFETY: see `scale`.
        unsafe { (self.dot)(a, b) }
    }
}

/// A path's instances.
macro_rules! entries {
    ($(#[$feature:meta])*) => {
        /// The weighted sums of this path.
        pub(super) const SUM: sum::SumKernels = {
            $(#[$feature])*
            unsafe fn scale(weight: f32, x: &[f32], y: &mut [f32]) {
                sum::scale(weight, x, y);
            }

            $(#[$feature])*
            unsafe fn add(weight: f32, x: &[f32], y: &mut [f32]) {
                sum::add(weight, x, y);
            }

            $(#[$feature])*
            unsafe fn dot(a: &[f32], b: &[f32]) -> f64 {
                sum::dot(a, b)
            }

            sum::SumKernels { scale, add, dot }
        };
    };
}
pub(super) use entries;
