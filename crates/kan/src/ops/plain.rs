//! The same layer by burn's own operations: for other backends, and as the reference of our
//! tests.

use burn::tensor::activation::relu;
use burn::tensor::{DType, Device, FloatDType, Shape, Tensor, TensorData};
use updraft_simd::mark_plain;

use super::layer::Parameters;
use crate::grid::{Grid, Outside};
use crate::kernels::{Activation, LayerGeometry};

/// All basis values are stored, then multiplied as a matrix.
pub(super) fn layer(x: Tensor<2>, parameters: Parameters, geometry: &LayerGeometry) -> Tensor<2> {
    mark_plain();
    if x.dims()[0] == 0 {
        // burn cannot expand to an axis of 0: a row replaces the batch.
        let row = Tensor::zeros([1, geometry.in_features()], (&x.device(), x.dtype()));
        let y = layer(Tensor::cat(vec![x, row], 0), parameters, geometry);
        return y.expand(Shape::from([0, geometry.out_features()]));
    }
    let dtype = x.dtype();
    let compute = if dtype == DType::F64 { FloatDType::F64 } else { FloatDType::F32 };
    let x = x.cast(compute);
    let [batch, inputs] = x.dims();
    let (outputs, count) = (geometry.out_features(), geometry.grid().bases());
    let Parameters { spline, base, scaler, bias } = parameters;
    let mut spline = spline.cast(compute);
    if let Some(scaler) = scaler {
        spline = spline * scaler.cast(compute).reshape([inputs, 1, outputs]);
    }
    let bases = bases(x.clone(), geometry.grid()).reshape([batch, inputs * count]);
    let mut y = bases.matmul(spline.reshape([inputs * count, outputs]));
    if let Some(base) = base {
        y = y + activate(x, geometry.activation()).matmul(base.cast(compute));
    }
    if let Some(bias) = bias {
        y = y + bias.cast(compute).reshape([1, outputs]);
    }
    y.cast(dtype)
}

pub(crate) fn activate<const D: usize>(x: Tensor<D>, activation: Activation) -> Tensor<D> {
    match activation {
        Activation::Silu => burn::tensor::activation::silu(x),
        Activation::Identity => x,
        Activation::Relu => relu(x),
    }
}

/// The values of all bases, `[batch, in_features, bases]`, by the recursion of Cox and de Boor.
pub(super) fn bases(x: Tensor<2>, grid: &Grid) -> Tensor<3> {
    let device = x.device();
    let [batch, inputs] = x.dims();
    let compute = if x.dtype() == DType::F64 { FloatDType::F64 } else { FloatDType::F32 };
    let knots = Knots { grid, inputs, compute, device: &device };
    let (degree, spans) = (grid.degree(), grid.intervals() + 2 * grid.degree());
    // Outside, clamp to a position with the same values, because zero times infinity is NaN.
    let places = match grid.outside() {
        Outside::Clamp => Some([(degree, degree), (grid.bases(), grid.bases())]),
        // No basis is non-zero at the last knot.
        Outside::Zero => Some([(0, spans), (spans, spans)]),
        Outside::Extend => None,
    };
    let mut x: Tensor<3> = x.reshape([batch, inputs, 1]);
    if let Some([(low, below), (high, above)]) = places {
        let at = |index: usize| knots.of(|feature| vec![knot(grid, feature, index)]);
        let all = |index: usize| at(index).expand([batch, inputs, 1]);
        x = x.clone().mask_where(x.clone().lower(at(low)), all(below));
        x = x.clone().mask_where(x.greater(at(high)), all(above));
    }
    let x = x.expand([batch, inputs, spans]);

    // Degree 0: 1 in the interval that contains x.
    let fades = grid.outside() == Outside::Zero;
    let ends = |feature: usize, side: usize| {
        let knot = |span: usize| knot(grid, feature, span + side);
        let inside = degree..grid.bases();
        let holds_numbers = |span: &usize| is_filled(grid, feature, *span);
        let first = inside.clone().find(holds_numbers).unwrap_or(degree);
        let last = inside.rev().find(holds_numbers).unwrap_or(degree);
        (0..spans)
            .map(|span| match (fades, side) {
                (true, _) => knot(span),
                (false, _) if span < first || span > last => f64::INFINITY,
                (false, 0) if span == first => f64::NEG_INFINITY,
                (false, 1) if span == last => f64::INFINITY,
                (false, _) => knot(span),
            })
            .collect()
    };
    let left = knots.of(|feature| ends(feature, 0));
    let right = knots.of(|feature| ends(feature, 1));
    let holds = x.clone().greater_equal(left).bool_and(x.clone().lower(right));
    let mut values: Tensor<3> = holds.float().cast(compute);
    if degree == 0 {
        // NaN propagates to all others by products.
        values = values.mask_fill(x.clone().is_nan(), f32::NAN);
    }

    for order in 1..=degree {
        let count = spans - order;
        let x = x.clone().narrow(2, 0, count);
        let at = |offset: usize| {
            knots
                .of(|feature| (0..count).map(|basis| knot(grid, feature, basis + offset)).collect())
        };
        let share = |from: usize, to: usize| {
            knots.of(|feature| {
                let inverse = |basis: usize| {
                    let span = knot(grid, feature, basis + to) - knot(grid, feature, basis + from);
                    if span == 0.0 { 0.0 } else { 1.0 / span }
                };
                (0..count).map(inverse).collect()
            })
        };
        let rising = (x.clone() - at(0)) * share(0, order) * values.clone().narrow(2, 0, count);
        let falling = (at(order + 1) - x) * share(1, order + 1) * values.narrow(2, 1, count);
        values = rising + falling;
    }
    values
}

/// Whether an interval holds any number.
fn is_filled(grid: &Grid, feature: usize, span: usize) -> bool {
    knot(grid, feature, span) < knot(grid, feature, span + 1)
}

/// Knots counted from the first one.
fn knot(grid: &Grid, feature: usize, index: usize) -> f64 {
    grid.knot(feature, index as isize - grid.degree() as isize)
}

/// Creates tensors from numbers per feature.
struct Knots<'a> {
    grid: &'a Grid,
    inputs: usize,
    compute: FloatDType,
    device: &'a Device,
}

impl Knots<'_> {
    /// `[1, in_features, n]`, or `[1, 1, n]` if all features have the same.
    fn of(&self, numbers: impl Fn(usize) -> Vec<f64>) -> Tensor<3> {
        let features = if self.grid.is_uniform() { 1 } else { self.inputs };
        let all: Vec<f64> = (0..features).flat_map(numbers).collect();
        let shape = [1, features, all.len() / features];
        let data = TensorData::new(all, shape);
        Tensor::from_data(data, (self.device, DType::from(self.compute)))
    }
}
