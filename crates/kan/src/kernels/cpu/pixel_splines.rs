//! Splines of pixels whose channels lie side by side: the values of all bases, also of those that are
//! zero.

use updraft_simd::Simd;

use super::bspline_uniform::{Uniform, slope, value};
use super::function;
use crate::grid::Outside;
use crate::kernels::activation::Activation;
use crate::kernels::geometry::LayerGeometry;
use crate::kernels::pixel_functions::PixelFunctions;

/// The splines of all channels on one grid, and the base branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PixelSplines {
    uniform: Uniform,
    degree: usize,
    /// Bases; none if only the base branch is computed.
    count: usize,
    base: Option<Activation>,
}

impl PixelSplines {
    /// `None` if the splines have no closed form.
    pub(crate) fn of(geometry: &LayerGeometry, has_spline: bool, has_base: bool) -> Option<Self> {
        let grid = geometry.grid();
        let is_closed = (1..=3).contains(&grid.degree());
        Some(Self {
            uniform: Uniform::of(grid).filter(|_| is_closed)?,
            degree: grid.degree(),
            count: if has_spline { grid.bases() } else { 0 },
            base: has_base.then_some(geometry.activation()),
        })
    }

    /// Bases of a channel.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Bases and the base branch.
    pub(crate) const fn terms(&self) -> usize {
        self.count + self.base.is_some() as usize
    }

    /// Those that are not zero at a pixel.
    pub(crate) const fn products(&self) -> usize {
        let window = if self.count > 0 { self.degree + 1 } else { 0 };
        window + self.base.is_some() as usize
    }

    #[inline(always)]
    fn all_values<S: Simd, const T: usize, const FADES: bool>(
        self,
        simd: S,
        pixels: &[f32],
        values: &mut [f32],
    ) {
        let minus: [S::Vector; T] = std::array::from_fn(|tap| simd.splat(-(tap as f32)));
        let one = simd.splat(1.0);
        let values = values.chunks_exact_mut(self.terms() * S::LANES);
        for (x, values) in pixels.chunks_exact(S::LANES).zip(values) {
            let (place, _, mut beyond) = self.uniform.interval::<S, T, FADES>(simd, simd.read(x));
            let taps = value::<S, T>(simd, place);
            for value in values.chunks_exact_mut(S::LANES).take(self.count) {
                // The base's number minus that of the interval is that of its tap.
                let mut sum = simd.unless_differs([beyond, minus[0]], taps[0]);
                for tap in 1..T {
                    sum = simd.add(sum, simd.unless_differs([beyond, minus[tap]], taps[tap]));
                }
                simd.write(value, sum);
                beyond = simd.subtract(beyond, one);
            }
        }
    }

    #[inline(always)]
    fn all_gradients<S: Simd, const T: usize, const FADES: bool>(
        self,
        simd: S,
        pixels: &mut [f32],
        values: &[f32],
        pitch: usize,
    ) {
        let minus: [S::Vector; T] = std::array::from_fn(|tap| simd.splat(-(tap as f32)));
        let one = simd.splat(1.0);
        let values = values.chunks(pitch);
        for (pixel, values) in pixels.chunks_exact_mut(S::LANES).zip(values) {
            let x = simd.read(pixel);
            let (place, factor, mut beyond) = self.uniform.interval::<S, T, FADES>(simd, x);
            let taps = slope::<S, T>(simd, place);
            let mut sums = [simd.zero(); T];
            for value in values.chunks_exact(S::LANES).take(self.count) {
                let value = simd.read(value);
                for tap in 0..T {
                    let own = simd.unless_differs([beyond, minus[tap]], value);
                    sums[tap] = simd.add(sums[tap], own);
                }
                beyond = simd.subtract(beyond, one);
            }
            let mut gradient = simd.multiply(sums[0], taps[0]);
            for tap in 1..T {
                gradient = simd.multiply_add(gradient, sums[tap], taps[tap]);
            }
            if self.count > 0 {
                gradient = simd.multiply(gradient, factor);
            } else {
                gradient = simd.zero();
            }
            if let Some(activation) = self.base {
                let slope = function::slope(simd, activation, x);
                let value = simd.read(&values[self.count * S::LANES..]);
                gradient = simd.multiply_add(gradient, slope, value);
            }
            simd.write(pixel, gradient);
        }
    }
}

/// Calls a method for the degree and the rule outside of the domain.
macro_rules! with_degree {
    ($splines:expr, $method:ident($($argument:expr),*)) => {
        match ($splines.degree, $splines.uniform.outside() == Outside::Zero) {
            (1, true) => $splines.$method::<S, 2, true>($($argument),*),
            (1, false) => $splines.$method::<S, 2, false>($($argument),*),
            (2, true) => $splines.$method::<S, 3, true>($($argument),*),
            (2, false) => $splines.$method::<S, 3, false>($($argument),*),
            (_, true) => $splines.$method::<S, 4, true>($($argument),*),
            (_, false) => $splines.$method::<S, 4, false>($($argument),*),
        }
    };
}

impl PixelFunctions for PixelSplines {
    fn trained(self) -> usize {
        0
    }

    #[inline(always)]
    fn values<S: Simd>(self, simd: S, _: usize, pixels: &[f32], values: &mut [f32]) {
        if self.count > 0 {
            with_degree!(self, all_values(simd, pixels, values));
        }
        let Some(activation) = self.base else { return };
        let values = values.chunks_exact_mut(self.terms() * S::LANES);
        for (x, values) in pixels.chunks_exact(S::LANES).zip(values) {
            let value = function::value(simd, activation, simd.read(x));
            simd.write(&mut values[self.count * S::LANES..], value);
        }
    }

    #[inline(always)]
    fn gradients<S: Simd>(
        self,
        simd: S,
        _: usize,
        pixels: &mut [f32],
        values: &mut [f32],
        pitch: usize,
        _: &mut [f32],
        _: &mut [f32],
    ) {
        with_degree!(self, all_gradients(simd, pixels, values, pitch));
    }
}
