//! Fully connected layers over all numbers of a sample.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use updraft_conv::slices::{self, ConvGeometry, ConvShape, PackedProduct};
use updraft_simd::Isa;

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, PackError, Packed, Registered, Shapes, Work,
};
use super::error::{OperationError, check_count};
use super::float::FloatKernel;
use super::parameters::{Lens, Parameters};
#[cfg(feature = "burn")]
use super::window::Window;
#[cfg(feature = "cube")]
use crate::kernels::cube::{CubeConvolution, CubeProduct, DeviceReason, Uploaded};
use crate::kernels::{FourBitLinear, QuantizedLinear};
use crate::network::{Attribute, Graph, GraphError, Node, Value};
use crate::weights::{Coding, QuantizedWeights};

/// The fewest weights that stay in four bits when they are multiplied by f32: a megabyte in f32,
/// about the second-level cache.
const LARGE: usize = 1 << 18;

/// Weights `[outputs][…]`, the latter in the order of the input.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Linear {}

impl Graph {
    /// A fully connected layer over all numbers of a sample, in the order channel, row, column;
    /// its output has one axis.
    ///
    /// # Errors
    /// [`GraphError`] for another length, or NaN and infinity.
    pub fn linear(
        &mut self,
        name: &str,
        x: Value,
        weights: &[f32],
        bias: &[f32],
    ) -> Result<Value, GraphError> {
        self.layer(name, Work::new(Linear {}, Parameters::new(weights, bias)), &[x])
    }
}

impl Operation for Linear {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        let weights = x[0].iter().product::<usize>().saturating_mul(lens.bias);
        lens.check(weights, lens.bias.max(1))?;
        Ok(vec![lens.bias])
    }

    fn multiply_adds(&self, shapes: &Shapes) -> usize {
        shapes.x[0].iter().product::<usize>() * shapes.y[0]
    }

    fn geometry(&self, shapes: &Shapes) -> Option<ConvGeometry> {
        let inputs = shapes.x[0].iter().product();
        let shape = ConvShape::new(1, [inputs, shapes.y[0]], [1, 1], [1, 1]);
        Some(ConvGeometry::try_new(shape).expect("neither side is empty"))
    }

    fn is_product(&self) -> bool {
        true
    }

    fn run_f32(&self, FloatJob { parameters, shapes, x, y, space }: FloatJob<'_>) {
        let Parameters { weights, bias } = parameters;
        let geometry = self.geometry(shapes).expect("it has weights");
        slices::forward(
            Isa::detect(),
            &geometry,
            x[0],
            weights,
            Some(bias),
            y,
            &mut space.scratch,
            1,
        );
    }

    fn pack_f32(&self, isa: Isa, parameters: &Parameters, _: &Shapes) -> Option<FloatKernel> {
        let Parameters { weights, bias } = parameters;
        Some(FloatKernel::Product(PackedProduct::new(isa, weights, bias)))
    }

    fn pack_weights(
        &self,
        isa: Isa,
        weights: &QuantizedWeights,
        coding: Option<&Coding>,
        shapes: &Shapes,
    ) -> Option<FloatKernel> {
        let values = weights.values();
        let coding = coding
            .filter(|coding| values.len() >= LARGE && FourBitLinear::check(coding.format).is_ok());
        let Some(coding) = coding else { return self.pack_f32(isa, &weights.real(), shapes) };
        let packed = FourBitLinear::packed(values, weights.scales(), coding, weights.real_bias());
        Some(FloatKernel::FourBits(packed))
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        let Some(weights) = around.weights else { return Ok(None) };
        let channels = around.shapes.x[0][0];
        let pixels = weights.each() / channels;
        let ordered = turned(weights, [channels, pixels])?;
        let product = QuantizedLinear::new(&ordered, around.y);
        Ok(Some(Arc::new(Flattened { product, channels })))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, client: &cubecl::client::Client, around: &Around<'_>) -> Uploaded {
        let weights = around.weights.ok_or(DeviceReason::NoKernel)?;
        let channels = around.shapes.x[0][0];
        let product = CubeConvolution::try_product(client, channels, weights, around.y)?;
        Ok(Box::new(CubeProduct(product)))
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let mut x = node.read(0);
        if node.shapes().x[0].len() > 1 {
            x = node.push("Flatten", &[&x], ".flat", vec![]);
        }
        let [w, b] = node.parameters(&[node.shapes().x[0].iter().product()]);
        node.push("Gemm", &[&x, &w, &b], "", vec![("transB", Attribute::Integer(1))])
    }

    fn may_be_clipped(&self) -> bool {
        true
    }

    fn scale_output(&self, parameters: &Parameters, by: &Parameters) -> Option<Parameters> {
        Some(parameters.scaled(by))
    }

    fn scale_input(&self, parameters: &Parameters, _: usize, by: &Parameters) -> Option<Work> {
        Some(Work::new(*self, parameters.of_scaled(by, 1)))
    }
}

impl Registered for Linear {
    const KIND: &'static str = "linear";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        layer: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{FloatOperationIr, ModuleOperationIr, OperationIr};

        let (x, weight, bias) = match operation {
            OperationIr::Float(_, FloatOperationIr::Matmul(product)) => {
                (&product.lhs, &product.rhs, None)
            }
            OperationIr::Module(ModuleOperationIr::Linear(linear)) => {
                (&linear.x, &linear.weight, linear.bias.as_ref())
            }
            _ => return Ok(None),
        };
        let reason = "it multiplies a constant by a tensor that depends on the input";
        let weights = reader.constant(weight, reason)?;
        // burn repeats a matrix along axes of length 1 in front.
        let &[ref before @ .., inputs, outputs] = &weights.shape[..] else {
            return Err(reader.unsupported("its weights are no matrix"));
        };
        if before.iter().any(|&side| side != 1) {
            return Err(reader.unsupported("it has other weights for each matrix of a sample"));
        }
        let is_row = reader.is_row(x)?;
        let x = reader.tokens(x)?;
        let bias = reader.bias(bias, outputs)?;
        let weights = weights.reshape(&[inputs, outputs]).permute(&[1, 0]).values;
        let name = reader.name_of(layer, "linear");
        if is_row {
            let y = reader.graph.linear(&name, x, &weights, &bias);
            return reader.layer(y).map(Some);
        }
        let y = reader.graph.convolution(&name, x, Window::new([1, 1]), 1, &weights, &bias);
        reader.tokens_of(y).map(Some)
    }
}

/// A product whose weights are in the order of codes: row, column, channel.
#[derive(Debug)]
struct Flattened {
    product: QuantizedLinear,
    channels: usize,
}

impl Kernel for Flattened {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        self.product.run(job.isa, x(0), y, job.scratch, job.threads);
    }

    fn product(&self) -> Option<&QuantizedLinear> {
        Some(&self.product)
    }

    fn has_weights(&self) -> bool {
        true
    }

    fn weights(&self) -> Option<QuantizedWeights> {
        let weights = self.product.weights();
        let pixels = weights.each() / self.channels;
        Some(turned(&weights, [pixels, self.channels]).expect("the same sums in another order"))
    }

    fn bytes(&self) -> usize {
        self.product.bytes()
    }
}

/// Weights `[outputs][rows][columns]` as `[outputs][columns][rows]`.
fn turned(
    weights: &QuantizedWeights,
    [rows, columns]: [usize; 2],
) -> Result<QuantizedWeights, PackError> {
    let of_output = |weights: &[i8]| -> Vec<i8> {
        (0..rows * columns).map(|at| weights[at % rows * columns + at / rows]).collect()
    };
    let values = weights.values().chunks_exact(rows * columns).flat_map(of_output).collect();
    let (scales, bias) = (weights.scales().to_vec(), weights.bias().to_vec());
    Ok(QuantizedWeights::try_new(values, scales, bias, weights.input())?)
}
