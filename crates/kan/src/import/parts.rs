//! A layer as numbers, the common form of all sources.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};

use super::error::ImportError;
use super::state::{State, swapped};
use crate::grid::Grid;
use crate::kernels::{Activation, LayerGeometry};
use crate::layer::KanLinear;

/// The tolerance for knots on an even grid, in rounding errors of the largest knot, because the
/// sources add up rounded steps.
const ROUNDINGS: f64 = 4.0;

/// A layer's numbers in the layout of this crate.
pub(super) struct Parts {
    /// The name of the layer in messages.
    pub(super) name: String,
    pub(super) grid: Grid,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// `[inputs, bases, outputs]`.
    pub(super) spline: Vec<f32>,
    /// `[inputs, outputs]`.
    pub(super) base: Vec<f32>,
    /// `[inputs, outputs]`.
    pub(super) scaler: Option<Vec<f32>>,
    /// `[outputs]`.
    pub(super) bias: Option<Vec<f32>>,
}

impl Parts {
    pub(super) fn layer(
        self,
        activation: Activation,
        device: &Device,
    ) -> Result<KanLinear, ImportError> {
        let Self { name, grid, inputs, outputs, spline, base, scaler, bias } = self;
        let bases = grid.bases();
        let geometry = LayerGeometry::try_new(grid, inputs, outputs, activation)
            .map_err(|source| ImportError::Layer { name, source })?;
        let edges = |numbers| parameter(numbers, [inputs, outputs], device);
        Ok(KanLinear::new(
            parameter(spline, [inputs, bases, outputs], device),
            Some(edges(base)),
            scaler.map(edges),
            bias.map(|bias| parameter(bias, [outputs], device)),
            geometry,
        ))
    }
}

fn parameter<const D: usize>(
    numbers: Vec<f32>,
    shape: [usize; D],
    device: &Device,
) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::from_data(TensorData::new(numbers, shape), device))
}

/// Transposes coefficients from `[inputs, outputs, bases]` to `[inputs, bases, outputs]`.
pub(super) fn outputs_last(numbers: &[f32], outputs: usize, bases: usize) -> Vec<f32> {
    let of_inputs = numbers.chunks_exact((outputs * bases).max(1));
    of_inputs.flat_map(|of_input| swapped(of_input, outputs, bases, 1)).collect()
}

/// The grid whose knots are `[inputs, intervals + 2·degree + 1]`, for coefficients of `bases`.
pub(super) fn grid(
    state: &State,
    name: &str,
    inputs: usize,
    bases: usize,
) -> Result<Grid, ImportError> {
    let [features, count] = state.shape(name)?;
    // intervals + 2·degree + 1 knots, and intervals + degree bases.
    let degree = count.checked_sub(bases + 1).filter(|degree| *degree < bases);
    let Some(degree) = degree.filter(|_| features == inputs) else {
        let (name, actual) = (name.to_owned(), vec![features, count]);
        return Err(ImportError::Shape { name, expected: vec![inputs, 0], actual });
    };
    let knots = state.numbers(name, [features, count])?;
    let intervals = bases - degree;
    let grid = match even(&knots, count, degree, intervals) {
        Some((low, high)) => Grid::uniform(low, high, intervals, degree),
        None => Grid::per_feature(features, knots, intervals, degree),
    };
    grid.map_err(|source| ImportError::Grid { name: name.to_owned(), source })
}

/// The domain that all features divide evenly, if they do.
fn even(knots: &[f32], count: usize, degree: usize, intervals: usize) -> Option<(f32, f32)> {
    let (low, high) = (*knots.get(degree)?, *knots.get(degree + intervals)?);
    let step = (f64::from(high) - f64::from(low)) / intervals as f64;
    let largest = knots.iter().fold(0.0_f32, |most, knot| most.max(knot.abs()));
    let bound = ROUNDINGS * f64::from(f32::EPSILON) * f64::from(largest);
    let is_even = knots.iter().enumerate().all(|(index, &knot)| {
        let place = (index % count) as f64 - degree as f64;
        (f64::from(knot) - f64::from(low) - place * step).abs() <= bound
    });
    is_even.then_some((low, high))
}
