//! Pooling of volumes: each slice as an image, then the slices of a window as vectors.

use updraft_simd::{Cut, Isa, Pieces, over, threads};

use super::plane;
use super::pooling::{Divisor, PoolGeometry, PoolShape, Pooling, Window};
use crate::kernels::geometry::GeometryError;
use crate::kernels::scratch::{CACHE_LINE, Scratch};

/// Windows of one size at equal distances; axes are depth, height and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool3dShape {
    /// Volumes: samples times channels.
    pub planes: usize,
    /// Size of the input.
    pub input: [usize; 3],
    /// Size of a window.
    pub kernel: [usize; 3],
    /// The stride.
    pub stride: [usize; 3],
    /// Before and after the input: ignored by maxima, and adds nothing to sums.
    pub padding: [usize; 3],
    /// The dilation.
    pub dilation: [usize; 3],
}

/// The windows of a pooling of volumes, checked once.
///
/// Input and output are contiguous: `[planes, depth, height, width]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool3dGeometry {
    planes: usize,
    depth: usize,
    depths: Vec<Window>,
    /// The windows of a slice.
    slice: PoolGeometry,
}

impl Pool3dGeometry {
    /// Windows of one size: `out = ⌊(in + 2·padding − dilation·(kernel − 1) − 1)/stride⌋ + 1`.
    ///
    /// # Errors
    /// [`GeometryError`] for an empty tensor, a window that is larger than the padded input, or one
    /// that lies in the padding alone.
    pub fn try_new(shape: Pool3dShape, divisor: Divisor) -> Result<Self, GeometryError> {
        let Pool3dShape { planes, input, kernel, stride, padding, dilation } = shape;
        let of = |sides: [usize; 3], axes: [usize; 2]| axes.map(|axis| sides[axis]);
        let image = |planes: usize, axes: [usize; 2]| PoolShape {
            planes,
            input: of(input, axes),
            kernel: of(kernel, axes),
            stride: of(stride, axes),
            padding: of(padding, axes),
            dilation: of(dilation, axes),
        };
        let slice = PoolGeometry::try_new(image(1, [1, 2]), divisor)?;
        // As the width of an image, since a height of 0 is an error of the slice already.
        let depths = PoolGeometry::try_new(image(planes, [1, 0]), divisor)
            .map_err(GeometryError::of_depth)?;
        let [_, depths] = depths.windows().clone();
        let geometry = Self { planes, depth: input[0], depths, slice };
        let fits = |depth: usize, slice: usize| {
            let numbers = depth.checked_mul(slice).and_then(|plane| plane.checked_mul(planes));
            numbers.is_some_and(|numbers| numbers < isize::MAX as usize / 4)
        };
        if fits(input[0], geometry.slice.input_plane())
            && fits(geometry.depths.len(), geometry.slice.output_plane())
        {
            Ok(geometry)
        } else {
            Err(GeometryError::TooLarge)
        }
    }

    /// Depth, height and width of the output.
    #[must_use]
    pub fn output(&self) -> [usize; 3] {
        let [rows, columns] = self.slice.output();
        [self.depths.len(), rows, columns]
    }

    /// Depth, height and width of the input.
    #[must_use]
    pub const fn input(&self) -> [usize; 3] {
        let [height, width] = self.slice.input();
        [self.depth, height, width]
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

    pub(crate) const fn input_plane(&self) -> usize {
        self.depth * self.slice.input_plane()
    }

    pub(crate) fn output_plane(&self) -> usize {
        self.depths.len() * self.slice.output_plane()
    }

    /// The size of a thread's work space: a slice and a row of the input.
    fn own_len(&self) -> usize {
        self.slice.input_plane().next_multiple_of(CACHE_LINE) + self.slice.input()[1]
    }

    /// The slice and the row in a thread's work space.
    fn parts<'a>(&self, own: &'a mut [f32]) -> [&'a mut [f32]; 2] {
        let slice = self.slice.input_plane();
        let (own_slice, row) = own.split_at_mut(slice.next_multiple_of(CACHE_LINE));
        [&mut own_slice[..slice], &mut row[..self.slice.input()[1]]]
    }
}

/// Pools every volume.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
pub fn pool_3d(
    isa: Isa,
    pooling: Pooling,
    geometry: &Pool3dGeometry,
    x: &[f32],
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    assert_eq!(y.len(), geometry.output_len(), "numbers of the output");
    let y = Cut::new(y, geometry.output_plane());
    pool_3d_into(isa, pooling, geometry, x, y, scratch, threads);
}

/// [`pool_3d`] into volumes.
pub(crate) fn pool_3d_into<'a>(
    isa: Isa,
    pooling: Pooling,
    geometry: &Pool3dGeometry,
    x: &[f32],
    y: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    let vectors = isa.vectors();
    let Pool3dGeometry { slice, depths, .. } = geometry;
    let (_, mut own) = scratch.split(0, threads(asked_threads), geometry.own_len());
    over(y, &mut own, |index, y, own| {
        let x = &x[index * geometry.input_plane()..][..geometry.input_plane()];
        let [joined, row] = geometry.parts(own);
        for (window, y) in depths.iter().zip(y.chunks_exact_mut(slice.output_plane())) {
            let of = |depth: usize| &x[depth * slice.input_plane()..][..slice.input_plane()];
            joined.copy_from_slice(of(window.start));
            for depth in window.inputs().skip(1) {
                plane::join_slices(vectors, pooling, of(depth), joined);
            }
            plane::pool(vectors, pooling, slice, joined, y, row);
            if pooling == Pooling::Average {
                y.iter_mut().for_each(|y| *y /= window.divisor as f32);
            }
        }
    });
}

/// The input's gradient, `dx = ∂(Σ y·dy)/∂x`, of [`pool_3d`] over `x`.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn pool_3d_gradient(
    isa: Isa,
    pooling: Pooling,
    geometry: &Pool3dGeometry,
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    assert_eq!(dx.len(), geometry.input_len(), "numbers of the input's gradient");
    let dx = Cut::new(dx, geometry.input_plane());
    pool_3d_gradient_into(isa, pooling, geometry, [x, dy], dx, scratch, threads);
}

/// [`pool_3d_gradient`] into volumes.
pub(crate) fn pool_3d_gradient_into<'a>(
    isa: Isa,
    pooling: Pooling,
    geometry: &Pool3dGeometry,
    [x, dy]: [&[f32]; 2],
    dx: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    assert_eq!(dy.len(), geometry.output_len(), "numbers of the output");
    let vectors = isa.vectors();
    let Pool3dGeometry { slice, depths, .. } = geometry;
    let (_, mut own) = scratch.split(0, threads(asked_threads), geometry.own_len());
    over(dx, &mut own, |index, dx, own| {
        let x = &x[index * geometry.input_plane()..][..geometry.input_plane()];
        let dy = &dy[index * geometry.output_plane()..][..geometry.output_plane()];
        let [shared, row] = geometry.parts(own);
        dx.fill(0.0);
        for (window, dy) in depths.iter().zip(dy.chunks_exact(slice.output_plane())) {
            if pooling == Pooling::Max {
                plane::gradient_of_max_3d(slice, *window, x, dy, dx);
                continue;
            }
            shared.fill(0.0);
            plane::gradient(vectors, pooling, slice, [&[], dy], shared, row);
            let share = 1.0 / window.divisor as f32;
            for depth in window.inputs() {
                let dx = &mut dx[depth * slice.input_plane()..][..slice.input_plane()];
                for (dx, &shared) in dx.iter_mut().zip(&*shared) {
                    *dx += share * shared;
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use updraft_testing::scattered;

    /// `[y, dx]` by the definition, in f64.
    fn reference(
        shape: Pool3dShape,
        pooling: Pooling,
        divisor: Divisor,
        output: [usize; 3],
        x: &[f32],
        dy: &[f32],
    ) -> [Vec<f64>; 2] {
        let Pool3dShape { planes, input, kernel, stride, padding, dilation } = shape;
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
    fn windows_are_pooled_with_their_gradients_as_defined_for_any_number_of_threads() {
        let base = Pool3dShape {
            planes: 3,
            input: [5, 6, 19],
            kernel: [2; 3],
            stride: [2; 3],
            padding: [0; 3],
            dilation: [1; 3],
        };
        for shape in [
            base,
            Pool3dShape { kernel: [3; 3], padding: [1; 3], ..base },
            Pool3dShape { kernel: [3, 2, 1], stride: [1, 3, 2], dilation: [2, 1, 1], ..base },
            Pool3dShape { input: [1, 1, 2], planes: 1, kernel: [1, 1, 2], ..base },
        ] {
            for (pooling, divisor) in [
                (Pooling::Max, Divisor::Window),
                (Pooling::Average, Divisor::Window),
                (Pooling::Average, Divisor::Inside),
            ] {
                let geometry = Pool3dGeometry::try_new(shape, divisor).expect("valid");
                for poison in [None, Some(f32::NAN), Some(f32::INFINITY)] {
                    let mut x = scattered(1, geometry.input_len());
                    let dy = scattered(2, geometry.output_len());
                    if let Some(poison) = poison {
                        let middle = x.len() / 2;
                        x[middle] = poison;
                    }
                    let right = reference(shape, pooling, divisor, geometry.output(), &x, &dy);
                    for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                        for threads in [1, 2, 5] {
                            let mut s = Scratch::new();
                            let mut y = vec![f32::NAN; dy.len()];
                            pool_3d(isa, pooling, &geometry, &x, &mut y, &mut s, threads);
                            let mut dx = vec![f32::NAN; x.len()];
                            let t = threads;
                            pool_3d_gradient(isa, pooling, &geometry, &x, &dy, &mut dx, &mut s, t);
                            for (given, right) in [&y, &dx].into_iter().zip(&right) {
                                for (given, &right) in given.iter().zip(right) {
                                    let given = f64::from(*given);
                                    let same = given == right || (given.is_nan() && right.is_nan());
                                    let is_near = (given - right).abs() < 1e-5;
                                    let context = format!("{isa} {pooling:?} {shape:?}");
                                    assert!(same || is_near, "{context}: {given} is not {right}");
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
        let shape = Pool3dShape {
            planes: 1,
            input: [2, 4, 4],
            kernel: [3, 2, 2],
            stride: [1; 3],
            padding: [0; 3],
            dilation: [1; 3],
        };
        let refused = Pool3dGeometry::try_new(shape, Divisor::Window).expect_err("too deep");
        assert_eq!(refused.to_string(), "the dilated kernel is 3 deep, the padded input only 2");
    }
}
