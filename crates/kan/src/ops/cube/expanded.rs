//! The expanded forms on burn's backend for GPUs: our kernels write matrices, and burn's product
//! multiplies them.
//!
//! The forward pass takes a part of the batch at a time, the backward pass a part of the inputs, so
//! that every product writes final numbers.

use burn::tensor::{DType, Shape};
#[cfg(feature = "autodiff")]
use burn_cubecl::kernel::cast;
use burn_cubecl::kernel::matmul::{MatmulStrategy, matmul};
use burn_cubecl::tensor::CubeTensor;

use super::linear::Linear;
#[cfg(feature = "autodiff")]
use super::linear::OfWeights;
use crate::kernels::CubeForm;
use crate::kernels::cube::{CubeLayer, Part, Sizes, add_bias, pack_weights, write_bases};
#[cfg(feature = "autodiff")]
use crate::kernels::cube::{WeightGradients, contract, unpack_gradients};
#[cfg(feature = "autodiff")]
use crate::kernels::cube_cost::expanded::parts::inputs_of_part;
use crate::kernels::cube_cost::expanded::parts::samples_of_part;

/// A layer in this form.
pub(super) struct Expanded<'a> {
    linear: &'a Linear,
    layer: CubeLayer,
    sizes: Sizes,
    dtype: DType,
}

impl<'a> Expanded<'a> {
    /// `None` if the form expands no bases.
    pub(super) fn new(linear: &'a Linear, layer: CubeLayer, form: CubeForm) -> Option<Self> {
        let dtype = match form {
            CubeForm::Expanded => DType::F32,
            CubeForm::ExpandedBf16 => DType::BF16,
            CubeForm::ExpandedF16 => DType::F16,
            _ => return None,
        };
        Some(Self { linear, layer, sizes: linear.sizes(layer), dtype })
    }

    fn matrix(&self, rows: usize, columns: usize) -> CubeTensor {
        self.linear.empty_of([rows, columns], self.dtype)
    }

    /// The values of all bases at a part, `[part.samples, part.inputs · rows]`.
    fn bases(&self, part: Part, is_for_gradients: bool) -> CubeTensor {
        let Self { linear, layer, sizes, .. } = *self;
        let values = self.matrix(part.samples as usize, part.inputs as usize * layer.rows());
        write_bases(
            &linear.x.client,
            linear.grid(),
            layer,
            sizes,
            part,
            self.elements(),
            is_for_gradients,
            linear.x.clone().into_buffer_arg(),
            values.clone().into_buffer_arg(),
        );
        values
    }

    /// The weights of a part's inputs, `[part.inputs · rows, out_features]`.
    fn weights(&self, part: Part) -> CubeTensor {
        let Self { linear, layer, sizes, .. } = *self;
        let rows = part.inputs as usize * layer.rows();
        let matrix = self.matrix(rows, linear.outputs());
        let inputs = linear.inputs();
        let weights = [inputs.spline, inputs.base, inputs.scaler];
        let to = matrix.clone().into_buffer_arg();
        pack_weights(&linear.x.client, layer, sizes, part, self.elements(), weights, to);
        matrix
    }

    fn elements(&self) -> cubecl::ir::ElemType {
        burn::backend::cubecl::dtype_to_elem_type(self.dtype)
    }

    /// Writes the outputs.
    pub(super) fn forward(&self, bias: Option<&CubeTensor>, y: &CubeTensor) {
        let Self { linear, layer, sizes, .. } = *self;
        let (inputs, outputs) = (linear.in_features(), linear.outputs());
        let batch = linear.x.meta.shape()[0];
        let most = samples_of_part(layer, inputs, self.dtype.size());
        let weights = self.weights(part(0..1, 0..inputs));
        for first in (0..batch).step_by(most) {
            let samples = most.min(batch - first);
            let values = self.bases(part(first..first + samples, 0..inputs), false);
            let offset = (first * outputs * size_of::<f32>()) as u64;
            let rows = CubeTensor::new_contiguous(
                y.client.clone(),
                y.device.clone(),
                Shape::new([samples, outputs]),
                y.handle.clone().offset_start(offset),
                y.dtype,
            );
            product(values, weights.clone(), rows);
        }
        if let Some(bias) = bias {
            let [bias, to] = [bias, y].map(|tensor| tensor.clone().into_buffer_arg());
            add_bias(&y.client, sizes, bias, to);
        }
    }
}

#[cfg(feature = "autodiff")]
impl Expanded<'_> {
    /// Writes the gradient of the input, and those of coefficients without factors and base weights,
    /// if they are wanted.
    pub(super) fn gradients(
        &self,
        dy: &CubeTensor,
        dx: Option<&CubeTensor>,
        of_weights: Option<&OfWeights>,
    ) {
        let Self { linear, layer, sizes, .. } = *self;
        let (inputs, batch) = (linear.in_features(), linear.x.meta.shape()[0]);
        let client = &linear.x.client;
        let dy = cast(dy.clone(), self.dtype);
        let most = inputs_of_part(layer, batch, self.dtype.size());
        for first in (0..inputs).step_by(most) {
            let part = part(0..batch, first..inputs.min(first + most));
            if let Some(dx) = dx {
                let of_values = self.matrix(batch, part.inputs as usize * layer.rows());
                let weights = transposed(self.weights(part));
                product(dy.clone(), weights, of_values.clone());
                contract(
                    client,
                    linear.grid(),
                    layer,
                    sizes,
                    part,
                    self.elements(),
                    linear.x.clone().into_buffer_arg(),
                    of_values.into_buffer_arg(),
                    dx.clone().into_buffer_arg(),
                );
            }
            if let Some(OfWeights { spline: of_spline, base: of_base }) = of_weights {
                let values = transposed(self.bases(part, true));
                let rows = part.inputs as usize * layer.rows();
                let of_matrix = linear.empty([rows, linear.outputs()]);
                product(values, dy.clone(), of_matrix.clone());
                let destinations = WeightGradients {
                    spline: of_spline.clone().into_buffer_arg(),
                    base: linear.or_empty(of_base.as_ref()),
                };
                let of_matrix = of_matrix.into_buffer_arg();
                unpack_gradients(client, layer, sizes, part, of_matrix, destinations);
            }
        }
    }
}

fn part(samples: std::ops::Range<usize>, inputs: std::ops::Range<usize>) -> Part {
    let number = |size: usize| u32::try_from(size).expect("sizes of a layer are below 2^32");
    Part {
        first_sample: number(samples.start),
        samples: number(samples.len()),
        first_input: number(inputs.start),
        inputs: number(inputs.len()),
    }
}

/// Writes a matrix product, summed in f32, to a contiguous matrix: those that burn makes have rows
/// that begin at multiples of the device's alignment.
///
/// # Panics
/// If the device cannot compute it, which for contiguous and transposed matrices none has shown.
fn product(left: CubeTensor, right: CubeTensor, to: CubeTensor) {
    let dtype = to.dtype;
    if let Err(error) = matmul(left, right, Some(to), MatmulStrategy::default(), dtype) {
        panic!("the device has no matrix product: {error:?}");
    }
}

#[cfg(feature = "autodiff")]
fn transposed(mut matrix: CubeTensor) -> CubeTensor {
    matrix.meta.swap(0, 1);
    matrix
}
