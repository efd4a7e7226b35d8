//! One feature map of a batch normalization: its sums, and its result.
#![expect(unsafe_code, reason = "functions for the vector instructions of a path")]

/// Lanes of a sum: two of the widest vectors.
const LANES: usize = 32;

/// What one feature map is normalized by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) mean: f32,
    /// `γ/√(variance + ε)`.
    pub(crate) scale: f32,
    /// `β`.
    pub(crate) shift: f32,
    /// Whether negative results become 0.
    pub(crate) rectifies: bool,
}

impl Line {
    #[inline(always)]
    fn at(&self, x: f32) -> f32 {
        (x - self.mean) * self.scale + self.shift
    }

    /// The gradient that passes the rectifier; NaN passes, as it does in the forward pass.
    #[inline(always)]
    fn pass(&self, x: f32, dy: f32) -> f32 {
        if self.at(x) <= 0.0 { 0.0 } else { dy }
    }
}

/// Sums `N` terms of each number, lane by lane, then the lanes in f64.
#[inline(always)]
fn sums<const N: usize>(x: &[f32], term: impl Fn(f32) -> [f32; N]) -> [f64; N] {
    sums_of_pairs(x, x, |x, _| term(x))
}

/// Sums `N` terms of each pair of numbers, lane by lane, then the lanes in f64.
#[inline(always)]
fn sums_of_pairs<const N: usize>(
    x: &[f32],
    y: &[f32],
    term: impl Fn(f32, f32) -> [f32; N],
) -> [f64; N] {
    let mut lanes = [[0.0_f32; LANES]; N];
    let (x_parts, x_rest) = x.as_chunks::<LANES>();
    let (y_parts, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in x_parts.iter().zip(y_parts) {
        for lane in 0..LANES {
            let terms = term(x[lane], y[lane]);
            for n in 0..N {
                lanes[n][lane] += terms[n];
            }
        }
    }
    let mut total = lanes.map(|lanes| lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>());
    for (&x, &y) in x_rest.iter().zip(y_rest) {
        for (total, term) in total.iter_mut().zip(term(x, y)) {
            *total += f64::from(term);
        }
    }
    total
}

/// The mean and the sum of squared differences from it.
#[inline(always)]
pub(super) fn moments(x: &[f32]) -> [f64; 2] {
    let [sum] = sums(x, |x| [x]);
    let mean = sum / x.len() as f64;
    let near = mean as f32;
    let [squares] = sums(x, |x| [(x - near) * (x - near)]);
    // The differences were taken from the rounded mean.
    let shift = mean - f64::from(near);
    [mean, squares - x.len() as f64 * shift * shift]
}

/// `y = (x − mean)·scale + shift`, rectified where that is asked for.
#[inline(always)]
pub(super) fn apply(line: Line, x: &[f32], y: &mut [f32]) {
    if line.rectifies {
        for (&x, y) in x.iter().zip(y) {
            let value = line.at(x);
            // Not `max`, which would turn NaN into 0.
            *y = if value <= 0.0 { 0.0 } else { value };
        }
    } else {
        for (&x, y) in x.iter().zip(y) {
            *y = line.at(x);
        }
    }
}

/// `[Σ g, Σ g·(x − mean)]` of the gradient `g` that passes the rectifier.
#[inline(always)]
pub(super) fn gradient_sums(line: Line, x: &[f32], dy: &[f32]) -> [f64; 2] {
    if line.rectifies {
        sums_of_pairs(x, dy, |x, dy| {
            let g = line.pass(x, dy);
            [g, g * (x - line.mean)]
        })
    } else {
        sums_of_pairs(x, dy, |x, dy| [dy, dy * (x - line.mean)])
    }
}

/// `dx = scale·(g − first − (x − mean)·second)`.
#[inline(always)]
pub(super) fn gradient(
    line: Line,
    [first, second]: [f32; 2],
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
) {
    let from = |x: f32, g: f32| line.scale * (g - first - (x - line.mean) * second);
    if line.rectifies {
        for ((&x, &dy), dx) in x.iter().zip(dy).zip(dx) {
            *dx = from(x, line.pass(x, dy));
        }
    } else {
        for ((&x, &dy), dx) in x.iter().zip(dy).zip(dx) {
            *dx = from(x, dy);
        }
    }
}

/// The functions of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormKernels {
    pub(super) moments: unsafe fn(&[f32]) -> [f64; 2],
    pub(super) apply: unsafe fn(Line, &[f32], &mut [f32]),
    pub(super) gradient_sums: unsafe fn(Line, &[f32], &[f32]) -> [f64; 2],
    pub(super) gradient: Gradient,
}

type Gradient = unsafe fn(Line, [f32; 2], &[f32], &[f32], &mut [f32]);

impl NormKernels {
    /// Those of a path.
    ///
    /// # Panics
    /// If the path is not available on this CPU.
    pub(crate) fn of(path: crate::kernels::path::Path) -> Self {
        use crate::kernels::path::Path;
        assert!(path.is_available(), "this CPU has no {path}");
        match path {
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => super::avx512::NORM,
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => super::avx2::NORM,
            _ => super::portable::NORM,
        }
    }

    pub(crate) fn moments(&self, x: &[f32]) -> [f64; 2] {
        // SAFETY: `of` has checked the CPU, here and below.
        unsafe { (self.moments)(x) }
    }

    pub(crate) fn apply(&self, line: Line, x: &[f32], y: &mut [f32]) {
        // SAFETY: see `moments`.
        unsafe { (self.apply)(line, x, y) };
    }

    pub(crate) fn gradient_sums(&self, line: Line, x: &[f32], dy: &[f32]) -> [f64; 2] {
        // SAFETY: see `moments`.
        unsafe { (self.gradient_sums)(line, x, dy) }
    }

    pub(crate) fn gradient(
        &self,
        line: Line,
        means: [f32; 2],
        x: &[f32],
        dy: &[f32],
        dx: &mut [f32],
    ) {
        // SAFETY: see `moments`.
        unsafe { (self.gradient)(line, means, x, dy, dx) };
    }
}

/// A path's instances.
macro_rules! entries {
    ($(#[$feature:meta])*) => {
        /// The functions of this path.
        pub(super) const NORM: norm::NormKernels = {
            $(#[$feature])*
            unsafe fn moments(x: &[f32]) -> [f64; 2] {
                norm::moments(x)
            }

            $(#[$feature])*
            unsafe fn apply(line: norm::Line, x: &[f32], y: &mut [f32]) {
                norm::apply(line, x, y);
            }

            $(#[$feature])*
            unsafe fn gradient_sums(line: norm::Line, x: &[f32], dy: &[f32]) -> [f64; 2] {
                norm::gradient_sums(line, x, dy)
            }

            $(#[$feature])*
            unsafe fn gradient(
                line: norm::Line,
                means: [f32; 2],
                x: &[f32],
                dy: &[f32],
                dx: &mut [f32],
            ) {
                norm::gradient(line, means, x, dy, dx);
            }

            norm::NormKernels { moments, apply, gradient_sums, gradient }
        };
    };
}
pub(super) use entries;
