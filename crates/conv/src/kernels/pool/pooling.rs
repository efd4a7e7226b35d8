//! Pooling: the maximum or the average of each window of a feature map or a volume.

use updraft_simd::{Isa, Pieces, over, threads};

use super::plane::{self, Plane};
use super::squares;
use crate::kernels::geometry::{
    DILATION, GeometryError, INPUT, STRIDE, at_least_one, axis_in_errors, windows_along,
};
use crate::kernels::scratch::{CACHE_LINE, Scratch};

/// The kind of pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Pooling {
    /// Its largest number; of equals the first gets the gradient, NaN is larger than all.
    Max,
    /// The sum divided by the divisor.
    Average,
}

impl Pooling {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Max => "max pooling",
            Self::Average => "average pooling",
        }
    }
}

/// Windows of one size at equal distances, over `D` axes: height and width, before them depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolShape<const D: usize = 2> {
    /// Feature maps or volumes: samples times channels.
    pub(crate) planes: usize,
    /// Size of the input.
    pub(crate) input: [usize; D],
    /// Size of a window.
    pub(crate) kernel: [usize; D],
    /// The stride.
    pub(crate) stride: [usize; D],
    /// Before and after the input: ignored by a maximum, zero in a sum.
    pub(crate) padding: [usize; D],
    /// The dilation.
    pub(crate) dilation: [usize; D],
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
/// Input and output are contiguous: `[planes, ..input]` and `[planes, ..output]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolGeometry<const D: usize = 2> {
    planes: usize,
    input: [usize; D],
    windows: [Vec<Window>; D],
}

/// The divisor of an average where a window reaches into the padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) enum Divisor {
    /// The window's size.
    #[default]
    Window,
    /// The number of inputs in the window.
    Inside,
}

impl<const D: usize> PoolGeometry<D> {
    /// Windows of one size: `out = ⌊(in + 2·padding − dilation·(kernel − 1) − 1)/stride⌋ + 1`.
    ///
    /// # Errors
    /// [`GeometryError`] for an empty tensor, a window that is larger than the padded input, or
    /// one that lies in the padding alone.
    pub(crate) fn try_new(shape: PoolShape<D>, divisor: Divisor) -> Result<Self, GeometryError> {
        const WINDOW: [&str; 3] = ["window depth", "window height", "window width"];
        let PoolShape { planes, input, kernel, stride, padding, dilation } = shape;
        at_least_one(&[(INPUT, input), (WINDOW, kernel), (STRIDE, stride), (DILATION, dilation)])?;
        let mut windows = [const { Vec::new() }; D];
        for (axis, windows) in windows.iter_mut().enumerate() {
            let numbers = [input, kernel, stride, padding, dilation].map(|of| of[axis]);
            *windows = windows_of_axis(axis_in_errors::<D>(axis), numbers, divisor)?;
        }
        Self { planes, input, windows }.checked()
    }

    /// That there are planes, and that the tensors can be addressed.
    fn checked(self) -> Result<Self, GeometryError> {
        if self.planes == 0 {
            return Err(GeometryError::Zero { name: "planes" });
        }
        let fits = |sides: [usize; D]| {
            let numbers = sides.into_iter().try_fold(self.planes, usize::checked_mul);
            numbers.is_some_and(|numbers| numbers < isize::MAX as usize / 4)
        };
        if fits(self.input) && fits(self.output()) {
            Ok(self)
        } else {
            Err(GeometryError::TooLarge)
        }
    }

    /// Size of the output.
    #[must_use]
    pub(crate) fn output(&self) -> [usize; D] {
        self.windows.each_ref().map(Vec::len)
    }

    /// Size of the input.
    #[must_use]
    pub(crate) const fn input(&self) -> [usize; D] {
        self.input
    }

    /// Numbers of the input.
    #[must_use]
    pub(crate) fn input_len(&self) -> usize {
        self.planes * self.input_plane()
    }

    /// Numbers of the output.
    #[must_use]
    pub(crate) fn output_len(&self) -> usize {
        self.planes * self.output_plane()
    }

    pub(crate) fn input_plane(&self) -> usize {
        self.input.iter().product()
    }

    pub(crate) fn output_plane(&self) -> usize {
        self.output().iter().product()
    }

    /// The windows of a feature map or a slice.
    fn plane(&self) -> Plane<'_> {
        let windows = [&self.windows[D - 2][..], &self.windows[D - 1]];
        Plane { size: [self.input[D - 2], self.input[D - 1]], windows }
    }

    /// The windows along the depth of a volume.
    fn depths(&self) -> Option<&[Window]> {
        (D > 2).then(|| &self.windows[0][..])
    }

    /// Width and windows of a row of a feature map whose maxima are of
    /// [squares](Plane::squares).
    fn maxima_of_squares(&self, pooling: Pooling) -> Option<[usize; 2]> {
        (D == 2 && pooling == Pooling::Max).then(|| self.plane().squares())?
    }

    /// Numbers of a slice of a volume.
    fn slice(&self) -> usize {
        if D > 2 { self.plane().input_len() } else { 0 }
    }

    /// Numbers of a thread's work space: a slice and a row of the input.
    fn own_len(&self) -> usize {
        self.slice().next_multiple_of(CACHE_LINE) + self.input[D - 1]
    }

    /// The slice and the row of a thread's work space.
    fn parts<'a>(&self, own: &'a mut [f32]) -> [&'a mut [f32]; 2] {
        let (slice, row) = own.split_at_mut(self.slice().next_multiple_of(CACHE_LINE));
        [&mut slice[..self.slice()], &mut row[..self.input[D - 1]]]
    }
}

/// The windows of an axis, from `[input, kernel, stride, padding, dilation]`.
fn windows_of_axis(
    axis: usize,
    numbers: [usize; 5],
    divisor: Divisor,
) -> Result<Vec<Window>, GeometryError> {
    let outputs = windows_along(axis, numbers)?;
    let [size, kernel, stride, padding, step] = numbers;
    let window = |output: usize| {
        let from = output * stride;
        // The taps `from + k·step − padding` that lie in the input.
        let first = padding.saturating_sub(from).div_ceil(step);
        let beyond = (size + padding).saturating_sub(from).div_ceil(step).min(kernel);
        let count = beyond.saturating_sub(first);
        if count == 0 {
            return Err(GeometryError::Padding { axis, output });
        }
        let divisor = match divisor {
            Divisor::Window => kernel,
            Divisor::Inside => count,
        };
        Ok(Window { start: from + first * step - padding, count, step, divisor })
    };
    (0..outputs).map(window).collect()
}

impl PoolGeometry {
    /// As many windows as asked for, which cover the input evenly: output `i` of `n` averages
    /// from `⌊i·in/n⌋` to before `⌈(i + 1)·in/n⌉`.
    ///
    /// # Errors
    /// [`GeometryError`] for an empty input or output.
    pub(crate) fn adaptive(
        planes: usize,
        input: [usize; 2],
        output: [usize; 2],
    ) -> Result<Self, GeometryError> {
        const OUTPUT: [&str; 3] = ["output depth", "output height", "output width"];
        at_least_one(&[(INPUT, input), (OUTPUT, output)])?;
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
}

/// Pools every feature map or volume; of volumes, slices of a window are joined as vectors, then
/// each slice is an image.
///
/// # Panics
/// If a slice has another length than `geometry` says, or the CPU does not have `isa`.
pub(crate) fn pool_into<'a, const D: usize>(
    isa: Isa,
    pooling: Pooling,
    geometry: &PoolGeometry<D>,
    x: &[f32],
    y: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    let (vectors, plane) = (isa.vectors(), geometry.plane());
    let has_apart_pairs = plane.has_apart_pairs();
    let maxima = geometry.maxima_of_squares(pooling);
    let (_, mut own) = scratch.split(0, threads(asked_threads), geometry.own_len());
    over(y, &mut own, |index, y, own| {
        let x = &x[index * geometry.input_plane()..][..geometry.input_plane()];
        if let Some(sizes) = maxima {
            return squares::maxima(vectors, sizes, x, y);
        }
        let [joined, row] = geometry.parts(own);
        let Some(depths) = geometry.depths() else {
            return plane::pool(vectors, pooling, plane, x, y, row);
        };
        for (window, y) in depths.iter().zip(y.chunks_exact_mut(plane.output_len())) {
            if has_apart_pairs {
                plane::pool_pairs(vectors, pooling, plane, *window, x, y, row);
                continue;
            }
            let of = |depth: usize| &x[depth * plane.input_len()..][..plane.input_len()];
            joined.copy_from_slice(of(window.start));
            for depth in window.inputs().skip(1) {
                plane::join_slices(vectors, pooling, of(depth), joined);
            }
            plane::pool(vectors, pooling, plane, joined, y, row);
            if pooling == Pooling::Average {
                y.iter_mut().for_each(|y| *y /= window.divisor as f32);
            }
        }
    });
}

/// The input's gradient, `dx = ∂(Σ y·dy)/∂x`, of [`pool_into`] over `x`.
///
/// # Panics
/// As [`pool_into`].
pub(crate) fn pool_gradient_into<'a, const D: usize>(
    isa: Isa,
    pooling: Pooling,
    geometry: &PoolGeometry<D>,
    [x, dy]: [&[f32]; 2],
    dx: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    assert_eq!(dy.len(), geometry.output_len(), "numbers of the output");
    let (vectors, plane) = (isa.vectors(), geometry.plane());
    let maxima = geometry.maxima_of_squares(pooling);
    let (_, mut own) = scratch.split(0, threads(asked_threads), geometry.own_len());
    over(dx, &mut own, |index, dx, own| {
        let x = &x[index * geometry.input_plane()..][..geometry.input_plane()];
        let dy = &dy[index * geometry.output_plane()..][..geometry.output_plane()];
        if let Some(sizes) = maxima {
            return squares::gradients(vectors, sizes, [x, dy], dx);
        }
        let [shared, row] = geometry.parts(own);
        dx.fill(0.0);
        let Some(depths) = geometry.depths() else {
            return match pooling {
                Pooling::Max => {
                    plane::gradient_of_max(vectors, plane, Window::ONE, [x, dy], dx, row);
                }
                Pooling::Average => plane::gradient_of_average(vectors, plane, dy, dx, row),
            };
        };
        for (window, dy) in depths.iter().zip(dy.chunks_exact(plane.output_len())) {
            if pooling == Pooling::Max {
                plane::gradient_of_max(vectors, plane, *window, [x, dy], dx, row);
                continue;
            }
            shared.fill(0.0);
            plane::gradient_of_average(vectors, plane, dy, shared, row);
            let share = 1.0 / window.divisor as f32;
            for depth in window.inputs() {
                let dx = &mut dx[depth * plane.input_len()..][..plane.input_len()];
                for (dx, &shared) in dx.iter_mut().zip(&*shared) {
                    *dx += share * shared;
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use updraft_simd::Cut;
    use updraft_testing::scattered;

    use super::*;
    use crate::kernels::reference;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        let number = |i: usize| ((i * 7919 + seed * 104_729) as f32 * 0.618).sin();
        (0..count).map(number).collect()
    }

    fn paths() -> impl Iterator<Item = Isa> {
        Isa::BASES.into_iter().filter(|isa| isa.is_available())
    }

    fn run<const D: usize>(
        isa: Isa,
        pooling: Pooling,
        geometry: &PoolGeometry<D>,
        [x, dy]: [&[f32]; 2],
        threads: usize,
    ) -> [Vec<f32>; 2] {
        let mut scratch = Scratch::new();
        let mut rows = scratch.split(1, threads, 1 << 8).1;
        rows.iter_mut().for_each(|own| own.fill(f32::NAN));
        let mut y = vec![f32::NAN; geometry.output_len()];
        let mut dx = vec![f32::NAN; geometry.input_len()];
        let pieces = Cut::new(&mut y, geometry.output_plane());
        pool_into(isa, pooling, geometry, x, pieces, &mut scratch, threads);
        let pieces = Cut::new(&mut dx, geometry.input_plane());
        pool_gradient_into(isa, pooling, geometry, [x, dy], pieces, &mut scratch, threads);
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

    /// `[y, dx]` by the definition, in f64.
    fn volumes(
        shape: PoolShape<3>,
        pooling: Pooling,
        divisor: Divisor,
        output: [usize; 3],
        x: &[f32],
        dy: &[f32],
    ) -> [Vec<f64>; 2] {
        let PoolShape { planes, input, kernel, stride, padding, dilation } = shape;
        let flat = |sides: [usize; 3], at: usize| {
            [at / sides[2] / sides[1], at / sides[2] % sides[1], at % sides[2]]
        };
        let (voxels, results): (usize, usize) = (input.iter().product(), output.iter().product());
        let (mut y, mut dx) = (Vec::new(), vec![0.0; x.len()]);
        for at in 0..planes * results {
            let (plane, place) = (at / results, flat(output, at % results));
            let mut inside = Vec::new();
            for tap in 0..kernel.iter().product() {
                let tap = flat(kernel, tap);
                let met = [0, 1, 2].map(|axis: usize| {
                    (place[axis] * stride[axis] + tap[axis] * dilation[axis])
                        .checked_sub(padding[axis])
                        .filter(|&at| at < input[axis])
                });
                if let [Some(z), Some(r), Some(c)] = met {
                    inside.push(plane * voxels + (z * input[1] + r) * input[2] + c);
                }
            }
            match pooling {
                Pooling::Max => {
                    let mut best = inside[0];
                    for &from in &inside {
                        if x[from] > x[best] || (x[from].is_nan() && !x[best].is_nan()) {
                            best = from;
                        }
                    }
                    y.push(f64::from(x[best]));
                    dx[best] += f64::from(dy[at]);
                }
                Pooling::Average => {
                    let count = match divisor {
                        Divisor::Window => kernel.iter().product(),
                        Divisor::Inside => inside.len(),
                    };
                    let sum: f64 = inside.iter().map(|&from| f64::from(x[from])).sum();
                    y.push(sum / count as f64);
                    for from in inside {
                        dx[from] += f64::from(dy[at]) / count as f64;
                    }
                }
            }
        }
        [y, dx]
    }

    #[test]
    fn windows_of_volumes_are_pooled_with_their_gradients_as_defined_for_any_number_of_threads() {
        let base = PoolShape::<3> {
            planes: 3,
            input: [5, 6, 19],
            kernel: [2; 3],
            stride: [2; 3],
            padding: [0; 3],
            dilation: [1; 3],
        };
        for shape in [
            base,
            PoolShape { kernel: [3; 3], padding: [1; 3], ..base },
            PoolShape { kernel: [3, 2, 1], stride: [1, 3, 2], dilation: [2, 1, 1], ..base },
            PoolShape { input: [1, 1, 2], planes: 1, kernel: [1, 1, 2], ..base },
        ] {
            for (pooling, divisor) in [
                (Pooling::Max, Divisor::Window),
                (Pooling::Average, Divisor::Window),
                (Pooling::Average, Divisor::Inside),
            ] {
                let geometry = PoolGeometry::try_new(shape, divisor).expect("valid");
                for poison in [None, Some(f32::NAN), Some(f32::INFINITY)] {
                    let mut x = scattered(1, geometry.input_len());
                    let dy = scattered(2, geometry.output_len());
                    if let Some(poison) = poison {
                        let middle = x.len() / 2;
                        x[middle] = poison;
                    }
                    let right = volumes(shape, pooling, divisor, geometry.output(), &x, &dy);
                    for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                        for threads in [1, 2, 5] {
                            let given = run(isa, pooling, &geometry, [&x, &dy], threads);
                            for (given, right) in given.iter().zip(&right) {
                                for (given, &right) in given.iter().zip(right) {
                                    let given = f64::from(*given);
                                    let same = given == right || (given.is_nan() && right.is_nan());
                                    let is_near = (given - right).abs() < 1e-5;
                                    let told = format!("{isa} {pooling:?} {shape:?}");
                                    assert!(same || is_near, "{told}: {given} is not {right}");
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_window_deeper_than_the_volume_is_refused() {
        let shape = PoolShape {
            planes: 1,
            input: [2, 4, 4],
            kernel: [3, 2, 2],
            stride: [1; 3],
            padding: [0; 3],
            dilation: [1; 3],
        };
        let refused = PoolGeometry::try_new(shape, Divisor::Window).expect_err("too deep");
        assert_eq!(refused.to_string(), "the dilated kernel is 3 deep, the padded input only 2");
    }
}
