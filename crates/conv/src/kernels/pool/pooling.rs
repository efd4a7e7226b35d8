//! Pooling: the maximum or the average of each window of a feature map.

use updraft_simd::{Cut, Isa, Pieces, over, threads};

use super::plane;
use crate::kernels::geometry::GeometryError;
use crate::kernels::scratch::Scratch;

/// The kind of pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pooling {
    /// The largest number; the first of equal ones gets the gradient, NaN is larger than all.
    Max,
    /// The sum divided by the divisor.
    Average,
}

/// Windows of one size at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolShape {
    /// Feature maps: samples times channels.
    pub planes: usize,
    /// Height and width of the input.
    pub input: [usize; 2],
    /// Height and width of a window.
    pub kernel: [usize; 2],
    /// The stride along height and width.
    pub stride: [usize; 2],
    /// Rows above and below and columns left and right, which are ignored by maxima and add nothing
    /// to sums.
    pub padding: [usize; 2],
    /// The dilation along height and width.
    pub dilation: [usize; 2],
}

/// The window of one output on one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: usize,
    pub(crate) count: usize,
    pub(crate) step: usize,
    /// The divisor of the window's sum.
    pub(crate) divisor: usize,
}

/// The windows of a pooling, checked once.
///
/// Input and output are contiguous: `[planes, height, width]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolGeometry {
    planes: usize,
    input: [usize; 2],
    windows: [Vec<Window>; 2],
}

/// The divisor of an average where a window reaches into the padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Divisor {
    /// The window's size.
    #[default]
    Window,
    /// The number of inputs in the window.
    Inside,
}

impl PoolGeometry {
    /// Windows of one size: `out = ⌊(in + 2·padding − dilation·(kernel − 1) − 1)/stride⌋ + 1`.
    ///
    /// # Errors
    /// [`GeometryError`] for an empty tensor, a window that is larger than the padded input, or
    /// one that lies in the padding alone.
    pub fn try_new(shape: PoolShape, divisor: Divisor) -> Result<Self, GeometryError> {
        let PoolShape { planes, input, kernel, stride, padding, dilation } = shape;
        for (name, value) in [
            ("planes", planes),
            ("input height", input[0]),
            ("input width", input[1]),
            ("window height", kernel[0]),
            ("window width", kernel[1]),
            ("vertical stride", stride[0]),
            ("horizontal stride", stride[1]),
            ("vertical dilation", dilation[0]),
            ("horizontal dilation", dilation[1]),
        ] {
            if value == 0 {
                return Err(GeometryError::Zero { name });
            }
        }
        let axis = |axis: usize| -> Result<Vec<Window>, GeometryError> {
            let (size, kernel, step) = (input[axis], kernel[axis], dilation[axis]);
            let span = step.checked_mul(kernel - 1).and_then(|reach| reach.checked_add(1));
            let padded = padding[axis].checked_mul(2).and_then(|both| both.checked_add(size));
            let (Some(span), Some(padded)) = (span, padded) else {
                return Err(GeometryError::TooLarge);
            };
            if span > padded {
                return Err(GeometryError::Kernel { axis, span, padded });
            }
            let outputs = (padded - span) / stride[axis] + 1;
            let window = |output: usize| {
                let from = output * stride[axis];
                // The taps `from + k·step − padding` that lie in the input.
                let first = padding[axis].saturating_sub(from).div_ceil(step);
                let beyond = (size + padding[axis]).saturating_sub(from).div_ceil(step).min(kernel);
                let count = beyond.saturating_sub(first);
                if count == 0 {
                    return Err(GeometryError::Padding { axis, output });
                }
                let divisor = match divisor {
                    Divisor::Window => kernel,
                    Divisor::Inside => count,
                };
                Ok(Window { start: from + first * step - padding[axis], count, step, divisor })
            };
            (0..outputs).map(window).collect()
        };
        Self { planes, input, windows: [axis(0)?, axis(1)?] }.checked()
    }

    /// A given number of windows that cover the input evenly: output `i` of `n` averages
    /// from `⌊i·in/n⌋` to before `⌈(i + 1)·in/n⌉`.
    ///
    /// # Errors
    /// [`GeometryError`] for an empty input or output.
    pub fn adaptive(
        planes: usize,
        input: [usize; 2],
        output: [usize; 2],
    ) -> Result<Self, GeometryError> {
        for (name, value) in [
            ("planes", planes),
            ("input height", input[0]),
            ("input width", input[1]),
            ("output height", output[0]),
            ("output width", output[1]),
        ] {
            if value == 0 {
                return Err(GeometryError::Zero { name });
            }
        }
        let axis = |axis: usize| {
            let (size, outputs) = (input[axis], output[axis]);
            let window = |output: usize| {
                let start = output * size / outputs;
                let count = ((output + 1) * size).div_ceil(outputs) - start;
                Window { start, count, step: 1, divisor: count }
            };
            (0..outputs).map(window).collect()
        };
        Self { planes, input, windows: [axis(0), axis(1)] }.checked()
    }

    /// Checks that the tensors can be addressed.
    fn checked(self) -> Result<Self, GeometryError> {
        let fits = |[height, width]: [usize; 2]| {
            let plane = height.checked_mul(width).and_then(|plane| plane.checked_mul(self.planes));
            plane.is_some_and(|numbers| numbers < isize::MAX as usize / 4)
        };
        if fits(self.input) && fits(self.output()) {
            Ok(self)
        } else {
            Err(GeometryError::TooLarge)
        }
    }

    /// Height and width of the output.
    #[must_use]
    pub fn output(&self) -> [usize; 2] {
        [self.windows[0].len(), self.windows[1].len()]
    }

    /// Numbers of the input.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.planes * self.input_plane()
    }

    /// Numbers of the output.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.planes * self.output_plane()
    }

    pub(crate) const fn input(&self) -> [usize; 2] {
        self.input
    }

    pub(crate) const fn windows(&self) -> &[Vec<Window>; 2] {
        &self.windows
    }

    pub(crate) const fn input_plane(&self) -> usize {
        self.input[0] * self.input[1]
    }

    pub(crate) fn output_plane(&self) -> usize {
        self.windows[0].len() * self.windows[1].len()
    }
}

/// Pools every feature map.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
pub fn pool(
    isa: Isa,
    pooling: Pooling,
    geometry: &PoolGeometry,
    x: &[f32],
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    assert_eq!(y.len(), geometry.output_len(), "numbers of the output");
    let y = Cut::new(y, geometry.output_plane());
    pool_into(isa, pooling, geometry, x, y, scratch, threads);
}

/// [`pool`] into feature maps.
pub(crate) fn pool_into<'a>(
    isa: Isa,
    pooling: Pooling,
    geometry: &PoolGeometry,
    x: &[f32],
    y: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    let vectors = isa.vectors();
    let plane = geometry.input_plane();
    let (_, mut rows) = scratch.split(0, threads(asked_threads), geometry.input[1]);
    over(y, &mut rows, |index, y, row| {
        let row = &mut row[..geometry.input[1]];
        plane::pool(vectors, pooling, geometry, &x[index * plane..][..plane], y, row);
    });
}

/// The input's gradient, `dx = ∂(Σ y·dy)/∂x`, of [`pool`] over `x`.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn pool_gradient(
    isa: Isa,
    pooling: Pooling,
    geometry: &PoolGeometry,
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    assert_eq!(dx.len(), geometry.input_len(), "numbers of the input");
    let dx = Cut::new(dx, geometry.input_plane());
    pool_gradient_into(isa, pooling, geometry, x, dy, dx, scratch, threads);
}

/// [`pool_gradient`] into feature maps.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub(crate) fn pool_gradient_into<'a>(
    isa: Isa,
    pooling: Pooling,
    geometry: &PoolGeometry,
    x: &[f32],
    dy: &[f32],
    dx: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    assert_eq!(dy.len(), geometry.output_len(), "numbers of the output");
    let vectors = isa.vectors();
    let (plane, output) = (geometry.input_plane(), geometry.output_plane());
    let (_, mut rows) = scratch.split(0, threads(asked_threads), geometry.input[1]);
    over(dx, &mut rows, |index, dx, row| {
        let row = &mut row[..geometry.input[1]];
        let (x, dy) = (&x[index * plane..][..plane], &dy[index * output..][..output]);
        dx.fill(0.0);
        plane::gradient(vectors, pooling, geometry, [x, dy], dx, row);
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernels::reference;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        let number = |i: usize| ((i * 7919 + seed * 104_729) as f32 * 0.618).sin();
        (0..count).map(number).collect()
    }

    fn paths() -> impl Iterator<Item = Isa> {
        Isa::BASES.into_iter().filter(|isa| isa.is_available())
    }

    fn run(
        isa: Isa,
        pooling: Pooling,
        geometry: &PoolGeometry,
        [x, dy]: [&[f32]; 2],
        threads: usize,
    ) -> [Vec<f32>; 2] {
        let mut scratch = Scratch::new();
        let mut rows = scratch.split(1, threads, 1 << 8).1;
        rows.iter_mut().for_each(|own| own.fill(f32::NAN));
        let mut y = vec![f32::NAN; geometry.output_len()];
        let mut dx = vec![f32::NAN; geometry.input_len()];
        pool(isa, pooling, geometry, x, &mut y, &mut scratch, threads);
        pool_gradient(isa, pooling, geometry, x, dy, &mut dx, &mut scratch, threads);
        [y, dx]
    }

    fn check(pooling: Pooling, geometry: &PoolGeometry, windows: &reference::PoolWindows) {
        let (x, dy) = (numbers(1, geometry.input_len()), numbers(2, geometry.output_len()));
        let [wide_x, wide_dy] =
            [&x, &dy].map(|v| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>());
        let right = match pooling {
            Pooling::Max => reference::max_pool(windows, &wide_x, &wide_dy),
            Pooling::Average => reference::average_pool(windows, &wide_x, &wide_dy),
        };
        for isa in paths() {
            let given = run(isa, pooling, geometry, [&x, &dy], 1);
            for (given, right) in given.iter().zip(&right) {
                assert_eq!(given.len(), right.len());
                for (given, right) in given.iter().zip(right) {
                    let error = (f64::from(*given) - right).abs();
                    assert!(error <= 4e-6, "{isa} {pooling:?} {windows:?}: {given} {right}");
                }
            }
            assert_eq!(given, run(isa, pooling, geometry, [&x, &dy], 3), "{isa}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

        #[test]
        fn any_windows_are_right(
            planes in 1_usize..4,
            input in [1_usize..14, 1_usize..38],
            kernel in [1_usize..5, 1_usize..5],
            stride in [1_usize..5, 1_usize..6],
            padding in [0_usize..3, 0_usize..3],
            dilation in [1_usize..3, 1_usize..4],
            inside in any::<bool>(),
        ) {
            let shape = PoolShape { planes, input, kernel, stride, padding, dilation };
            let divisor = if inside { Divisor::Inside } else { Divisor::Window };
            if let Ok(geometry) = PoolGeometry::try_new(shape, divisor) {
                let windows = reference::PoolWindows::of(shape, divisor);
                prop_assert_eq!(geometry.output(), windows.output());
                check(Pooling::Max, &geometry, &windows);
                check(Pooling::Average, &geometry, &windows);
            }
        }

        #[test]
        fn any_adaptive_windows_are_right(
            planes in 1_usize..4,
            input in [1_usize..14, 1_usize..38],
            output in [1_usize..6, 1_usize..40],
        ) {
            let geometry = PoolGeometry::adaptive(planes, input, output).expect("not empty");
            let windows = reference::PoolWindows::adaptive(planes, input, output);
            check(Pooling::Average, &geometry, &windows);
        }
    }

    #[test]
    fn a_window_with_nan_is_nan_and_no_other() {
        let shape = PoolShape {
            planes: 1,
            input: [2, 40],
            kernel: [2, 2],
            stride: [2, 2],
            padding: [0, 0],
            dilation: [1, 1],
        };
        let geometry = PoolGeometry::try_new(shape, Divisor::Window).expect("valid");
        for poisoned in [3, 43] {
            let mut x = numbers(1, 80);
            x[poisoned] = f32::NAN;
            x[70] = f32::INFINITY;
            for isa in paths() {
                for pooling in [Pooling::Max, Pooling::Average] {
                    let [y, dx] = run(isa, pooling, &geometry, [&x, &[1.0; 20]], 1);
                    let nan: Vec<bool> = y.iter().map(|y| y.is_nan()).collect();
                    assert_eq!(nan, (0..20).map(|i| i == 1).collect::<Vec<_>>(), "{isa}");
                    assert_eq!(y[15], f32::INFINITY);
                    assert!(dx.iter().all(|dx| dx.is_finite()));
                }
            }
        }
    }

    #[test]
    fn a_window_in_the_padding_alone_is_refused() {
        let shape = PoolShape {
            planes: 1,
            input: [4, 4],
            kernel: [2, 2],
            stride: [1, 1],
            padding: [0, 2],
            dilation: [1, 1],
        };
        let error = PoolGeometry::try_new(shape, Divisor::Window).expect_err("empty");
        assert_eq!(
            error.to_string(),
            "window 0 of the width lies in the padding alone; the padding has to be below the \
             window's size"
        );
    }
}
