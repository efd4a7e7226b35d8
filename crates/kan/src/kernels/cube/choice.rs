//! The form that computes a layer.

use cubecl::prelude::*;

#[cfg(feature = "autodiff")]
use super::buffers::WeightGradients;
use super::buffers::{Inputs, Sizes};
use super::layer::{CubeLayer, LayerGrid};
use super::tensor_cores::{self, Packing};
use super::{dense, expanded, sparse};
use crate::kernels::CubeForm;

/// The form of a layer: the one that is forced, else the one of the input's precision if the device
/// has it, else one of f32.
///
/// # Panics
/// If it is forced, and the device cannot compute the layer in it.
pub(crate) fn chosen(
    client: &Client,
    forced: Option<CubeForm>,
    of_input: Option<CubeForm>,
    layer: CubeLayer,
) -> CubeForm {
    if let Some(form) = forced {
        let is_there = is_available(client, form, layer);
        assert!(is_there, "the device cannot compute this layer in the form \"{form}\"");
        return form;
    }
    let of_input = of_input.filter(|&form| expanded::is_on_tensor_cores(client, form));
    let in_order = of_input.into_iter().chain([CubeForm::Dense]);
    let found = in_order.into_iter().find(|&form| is_available(client, form, layer));
    found.unwrap_or(CubeForm::Sparse)
}

/// Whether a device computes a layer in a form.
pub(crate) fn is_available(client: &Client, form: CubeForm, layer: CubeLayer) -> bool {
    match form {
        CubeForm::Sparse => true,
        CubeForm::Dense => dense::is_for(client, layer),
        CubeForm::Bf16 | CubeForm::F16 => tensor_cores::numbers(form)
            .is_some_and(|numbers| tensor_cores::is_for(client, layer, numbers)),
        CubeForm::Expanded | CubeForm::ExpandedBf16 | CubeForm::ExpandedF16 => {
            expanded::is_for(client, layer, form)
        }
    }
}

/// The numbers in the buffer that the products of tensor cores read weights from; `None` if the form
/// reads the weights as they are.
pub(crate) fn packed_len(form: CubeForm, layer: CubeLayer, sizes: Sizes) -> Option<usize> {
    tensor_cores::numbers(form).map(|_| Packing::new(layer, sizes).len())
}

/// Writes the outputs, `[batch, out_features]`, for at least one sample; a layer without bias has
/// any buffer in its place, and `packed` is a buffer of [`packed_len`], twice, if the form has one.
///
/// # Panics
/// If the form does not compute the grid.
#[expect(clippy::too_many_arguments, reason = "a kernel's sizes, inputs, outputs and device")]
pub(crate) fn forward(
    client: &Client,
    form: CubeForm,
    grid: LayerGrid<'_>,
    layer: CubeLayer,
    sizes: Sizes,
    inputs: Inputs,
    packed: Option<[BufferArg; 2]>,
    bias: BufferArg,
    y: BufferArg,
) {
    if let (Some(numbers), Some([to, from])) = (tensor_cores::numbers(form), packed) {
        let Inputs { x, spline, base, scaler } = inputs;
        let weights = [spline, base, scaler];
        tensor_cores::pack(client, layer, sizes, numbers, weights, to);
        tensor_cores::forward(client, grid.grid, layer, sizes, numbers, x, from, bias, y);
        return;
    }
    match form {
        CubeForm::Dense => dense::forward(client, grid.grid, layer, sizes, inputs, bias, y),
        _ => sparse::forward(client, grid, layer, sizes, inputs, bias, y),
    }
}

/// Writes the gradient of the input, `[batch, in_features]`, for that of the outputs,
/// `[batch, out_features]`, of at least one sample.
///
/// # Panics
/// As [`forward`].
#[cfg(feature = "autodiff")]
#[expect(clippy::too_many_arguments, reason = "a kernel's sizes, inputs, outputs and device")]
pub(crate) fn input_gradient(
    client: &Client,
    form: CubeForm,
    grid: LayerGrid<'_>,
    layer: CubeLayer,
    sizes: Sizes,
    inputs: Inputs,
    packed: Option<[BufferArg; 2]>,
    dy: BufferArg,
    dx: BufferArg,
) {
    if let (Some(numbers), Some([to, from])) = (tensor_cores::numbers(form), packed) {
        let Inputs { x, spline, base, scaler } = inputs;
        let weights = [spline, base, scaler];
        tensor_cores::pack(client, layer, sizes, numbers, weights, to);
        tensor_cores::input_gradient(client, grid.grid, layer, sizes, numbers, x, from, dy, dx);
        return;
    }
    match form {
        CubeForm::Dense => dense::input_gradient(client, grid.grid, layer, sizes, inputs, dy, dx),
        _ => sparse::input_gradient(client, grid, layer, sizes, inputs, dy, dx),
    }
}

/// Writes the gradients of the weights for that of the outputs, `[batch, out_features]`.
///
/// # Panics
/// As [`forward`].
#[cfg(feature = "autodiff")]
#[expect(clippy::too_many_arguments, reason = "a kernel's sizes, inputs, outputs and device")]
pub(crate) fn weight_gradient(
    client: &Client,
    form: CubeForm,
    grid: LayerGrid<'_>,
    layer: CubeLayer,
    sizes: Sizes,
    x: BufferArg,
    dy: BufferArg,
    gradients: WeightGradients,
) {
    if let Some(numbers) = tensor_cores::numbers(form) {
        let grid = grid.grid;
        tensor_cores::weight_gradient(client, grid, layer, sizes, numbers, x, dy, gradients);
        return;
    }
    match form {
        CubeForm::Dense => {
            dense::weight_gradient(client, grid.grid, layer, sizes, x, dy, gradients);
        }
        _ => sparse::weight_gradient(client, grid, layer, sizes, x, dy, gradients),
    }
}
