//! Every kernel, launched for all numbers, activations and types of indices: the list for programs
//! that compile kernels without a card.

use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

use super::{ChannelGradients, Form, Inputs, Sizes, apply, gradient_sums, input_gradient, moments};
use crate::kernels::{Activation, BatchNormShape, Slope, StatisticsOf};

/// Numbers of a buffer: none is read.
const NUMBERS: usize = 1 << 20;

const EPSILON: f32 = 1e-5;

/// Each has kernels of its own, the leaky rectifier for each slope.
const ACTIVATIONS: [Activation; 8] = [
    Activation::Identity,
    Activation::Relu,
    Activation::Silu,
    Activation::Elu,
    Activation::LeakyRelu(Slope::new(0.01)),
    Activation::Relu6,
    Activation::HardSwish,
    Activation::Gelu,
];

/// A tensor whose indices have 32 bits, with every activation, and one of 2³² numbers, whose indices
/// have 64, with the longest activation: indices do not depend on it.
const SHAPES: [(BatchNormShape, &[Activation]); 2] = [
    (BatchNormShape { batch: 256, channels: 64, pixels: 1024 }, &ACTIVATIONS),
    (BatchNormShape { batch: 64, channels: 256, pixels: 1 << 18 }, &[Activation::Gelu]),
];

/// Launches every kernel for GPUs of this crate on a client, for the numbers that its device
/// supports; `buffer` makes a buffer of so many numbers of four bytes, with any content.
pub fn every_kernel(client: &Client, buffer: &dyn Fn(usize) -> BufferArg) {
    for (shape, activations) in SHAPES {
        let sizes = Sizes::new(shape);
        for kind in [FloatKind::F32, FloatKind::BF16, FloatKind::F16] {
            let numbers = ElemType::Float(kind);
            if !client.properties().supports_type(numbers) {
                continue;
            }
            let launches = Launches { client, buffer, sizes, numbers };
            launches.of_statistics();
            for &activation in activations {
                for has_residual in [false, true] {
                    launches.of_form(Form { numbers, activation, has_residual });
                }
            }
        }
    }
}

/// The launches for tensors of some sizes and numbers.
struct Launches<'a> {
    client: &'a Client,
    buffer: &'a dyn Fn(usize) -> BufferArg,
    sizes: Sizes,
    numbers: ElemType,
}

impl Launches<'_> {
    /// Any buffer: none is read.
    fn any(&self) -> BufferArg {
        (self.buffer)(NUMBERS)
    }

    /// Any two buffers.
    fn two(&self) -> [BufferArg; 2] {
        [self.any(), self.any()]
    }

    fn inputs(&self) -> Inputs {
        Inputs {
            x: self.any(),
            residual: self.any(),
            gamma: self.any(),
            beta: self.any(),
            mean: self.any(),
            variance: self.any(),
        }
    }

    /// The kernels that no activation changes.
    fn of_statistics(&self) {
        let &Self { client, sizes, numbers, .. } = self;
        moments(client, sizes, numbers, self.any(), self.two(), self.two());
    }

    /// The kernels of a form, a line for each function that launches some.
    fn of_form(&self, form: Form) {
        let &Self { client, sizes, .. } = self;
        apply(client, sizes, form, self.inputs(), EPSILON, self.any());
        for of in [StatisticsOf::Batch, StatisticsOf::Others] {
            let gradients =
                ChannelGradients { gamma: self.any(), beta: self.any(), lines: self.any() };
            let inputs = [self.inputs(), self.inputs()];
            let (dy, between) = (self.any(), self.two());
            gradient_sums(client, sizes, form, of, inputs, EPSILON, dy, between, gradients);
        }
        let [x, residual, dy, lines] = [(); 4].map(|()| self.any());
        input_gradient(client, sizes, form, x, residual, dy, lines, self.two());
    }
}
