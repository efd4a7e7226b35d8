//! Convolutions over images and lines, dense, grouped and depthwise; one may add a second tensor.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use updraft_conv::slices::{self, ConvGeometry, ConvShape, PackedConvolution};
use updraft_simd::Isa;

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, PackError, Packed, Registered, Shapes, Work,
};
use super::error::{OperationError, check_count, check_factor};
use super::float::FloatKernel;
use super::parameters::{Lens, Parameters};
use super::window::Window;
#[cfg(feature = "cube")]
use crate::kernels::cube::{CubeConvolution, CubeDepthwise, DeviceReason, Uploaded};
use crate::kernels::{Addend, QuantizedConvolution};
use crate::network::{Attribute, Exact, Graph, GraphError, Node, Value};
use crate::scheme::ActivationScheme;
use crate::weights::QuantizedWeights;

/// The samples for which the algorithm in f32 is chosen.
const BATCH: usize = 32;

/// Weights `[outputs][inputs / groups][rows][columns]`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Convolution {
    pub(super) window: Window,
    pub(super) groups: usize,
    /// The positive factor of a second tensor that is added.
    pub(super) addend: Option<Exact<f32>>,
}

impl Convolution {
    fn geometry(&self, shapes: &Shapes) -> ConvGeometry {
        let over = self.window.over(&shapes.x[0], shapes.y[0], self.groups);
        over.expect("checked with its shape").0
    }
}

impl Graph {
    /// A convolution.
    ///
    /// # Errors
    /// [`GraphError`] for windows that do not fit, another length, or NaN and infinity.
    pub fn convolution(
        &mut self,
        name: &str,
        x: Value,
        window: Window,
        groups: usize,
        weights: &[f32],
        bias: &[f32],
    ) -> Result<Value, GraphError> {
        let operation = Convolution { window, groups, addend: None };
        self.layer(name, Work::new(operation, Parameters::new(weights, bias)), &[x])
    }
}

impl Operation for Convolution {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1 + usize::from(self.addend.is_some()))?;
        let (geometry, y) = self.window.over(&x[0], lens.bias, self.groups)?;
        lens.check(geometry.weight_len(), lens.bias)?;
        if let Some(factor) = self.addend {
            check_factor(factor.0)?;
            if x[1] != y {
                return Err(OperationError::Summands { shapes: vec![y, x[1].clone()] });
            }
        }
        Ok(y)
    }

    fn multiply_adds(&self, shapes: &Shapes) -> usize {
        self.geometry(shapes).operations() / 2
    }

    fn geometry(&self, shapes: &Shapes) -> Option<ConvGeometry> {
        Some(self.geometry(shapes))
    }

    fn groups(&self) -> usize {
        self.groups
    }

    fn run_f32(&self, FloatJob { parameters, shapes, x, y, space }: FloatJob<'_>) {
        let Parameters { weights, bias } = parameters;
        let geometry = self.geometry(shapes);
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
        if let Some(Exact(factor)) = self.addend {
            y.iter_mut().zip(x[1]).for_each(|(y, x)| *y += factor * x);
        }
    }

    fn pack_f32(&self, isa: Isa, parameters: &Parameters, shapes: &Shapes) -> Option<FloatKernel> {
        let one = self.geometry(shapes);
        // Transformed weights pay off over a batch; the choice is the same for every batch.
        let batch = ConvGeometry::try_new(ConvShape { batch: BATCH, ..*one.shape() });
        let Parameters { weights, bias } = parameters;
        let packed = PackedConvolution::new(isa, &batch.unwrap_or(one), weights, bias);
        let addend = self.addend.map(|Exact(factor)| factor);
        Some(FloatKernel::Convolution { packed: Box::new(packed), addend })
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        let Some(weights) = around.weights else { return Ok(None) };
        let kernel =
            QuantizedConvolution::try_new(&self.geometry(around.shapes), weights, around.y)?;
        Ok(Some(match self.addend {
            None => Arc::new(kernel),
            Some(Exact(factor)) => {
                let addend = around.x[1].times(factor).map_err(PackError::Factor)?;
                Arc::new(Sum { convolution: kernel, addend })
            }
        }))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, client: &cubecl::client::Client, around: &Around<'_>) -> Uploaded {
        let weights = around.weights.ok_or(DeviceReason::NoKernel)?;
        let geometry = self.geometry(around.shapes);
        let scaled = |Exact(factor)| around.x[1].times(factor).expect("it was packed before");
        let (addend, y) = (self.addend.map(scaled), around.y);
        let ConvShape { channels: [inputs, outputs], groups, .. } = *geometry.shape();
        if groups == inputs && inputs == outputs {
            let kernel = CubeDepthwise::try_new(client, &geometry, weights, y, addend)?;
            return Ok(Box::new(kernel));
        }
        let kernel = CubeConvolution::try_new(client, &geometry, weights, y, addend)?;
        Ok(Box::new(kernel))
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let geometry = self.geometry(node.shapes());
        let shape = geometry.shape();
        let each = [shape.channels[0] / shape.groups, shape.kernel[0], shape.kernel[1]];
        let [w, b] = node.parameters(&each);
        let x = node.read_image(0);
        let mut attributes = self.window.attributes();
        attributes.push(("group", Attribute::Integer(self.groups as i64)));
        let y = node.image("Conv", &[&x, &w, &b], attributes);
        match self.addend {
            None => y,
            Some(Exact(factor)) => {
                let other = node.read_scaled(1, factor);
                node.push("Add", &[&y, &other], ".sum", vec![])
            }
        }
    }

    fn may_be_clipped(&self) -> bool {
        true
    }

    fn scale_output(&self, parameters: &Parameters, by: &Parameters) -> Option<Parameters> {
        self.addend.is_none().then(|| parameters.scaled(by))
    }

    fn scale_input(&self, parameters: &Parameters, _: usize, by: &Parameters) -> Option<Work> {
        // Padding is zero, and would have to be shifted.
        let is_possible =
            self.window.padding == [0, 0] || by.bias.iter().all(|&shift| shift == 0.0);
        is_possible.then(|| Work::new(*self, parameters.of_scaled(by, self.groups)))
    }

    fn with_addend(&self, parameters: &Parameters, [own, other]: [f32; 2]) -> Option<Work> {
        if self.addend.is_some() {
            return None;
        }
        let mut parameters = parameters.clone();
        let Parameters { weights, bias } = &mut parameters;
        weights.iter_mut().chain(bias).for_each(|value| *value *= own);
        Some(Work::new(Self { addend: Some(Exact(other)), ..*self }, parameters))
    }
}

impl Registered for Convolution {
    const KIND: &'static str = "convolution";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        layer: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{ModuleOperationIr as M, OperationIr};

        let (x, weight, bias, window, groups) = match operation {
            OperationIr::Module(M::Conv2d(conv)) => {
                let options = &conv.options;
                if options.padding.iter().any(|(before, after)| before != after) {
                    return Err(reader.unsupported("its padding differs between two sides"));
                }
                let kernel = [conv.weight.shape[2], conv.weight.shape[3]];
                let padding = options.padding.map(|(before, _)| before);
                let (stride, dilation) = (options.stride, options.dilation);
                let window = Window { kernel, stride, padding, dilation };
                (&conv.x, &conv.weight, &conv.bias, window, options.groups)
            }
            OperationIr::Module(M::Conv1d(conv)) => {
                let options = &conv.options;
                let (before, after) = options.padding[0];
                if before != after {
                    return Err(reader.unsupported("its padding differs between two sides"));
                }
                let window = Window {
                    kernel: [1, conv.weight.shape[2]],
                    stride: [1, options.stride[0]],
                    padding: [0, before],
                    dilation: [1, options.dilation[0]],
                };
                (&conv.x, &conv.weight, &conv.bias, window, options.groups)
            }
            _ => return Ok(None),
        };
        let (x, _) = reader.value(x)?;
        let weights = reader.constant(weight, "its weights depend on the input")?;
        let bias = reader.bias(bias.as_ref(), weights.shape[0])?;
        let name = reader.name_of(layer, "convolution");
        let y = reader.graph.convolution(&name, x, window, groups, &weights.values, &bias);
        reader.layer(y).map(Some)
    }
}

impl Kernel for QuantizedConvolution {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        self.run(job.isa, x(0), y, job.scratch, job.threads);
    }

    fn has_weights(&self) -> bool {
        true
    }

    fn weights(&self) -> Option<QuantizedWeights> {
        Some(self.weights())
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

/// A convolution and a tensor of the scheme, added.
#[derive(Debug)]
struct Sum {
    convolution: QuantizedConvolution,
    addend: ActivationScheme,
}

impl Kernel for Sum {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        let addend = Addend { scheme: self.addend, codes: x(1) };
        self.convolution.run_plus(job.isa, x(0), addend, y, job.scratch, job.threads);
    }

    fn has_weights(&self) -> bool {
        true
    }

    fn weights(&self) -> Option<QuantizedWeights> {
        Some(self.convolution.weights())
    }

    fn bytes(&self) -> usize {
        self.convolution.bytes()
    }
}
