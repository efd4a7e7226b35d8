//! Our operations on burn's CPU backend.

use std::cell::RefCell;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::TensorData;
use updraft_simd::{Cut, fill_in_pieces, pool_threads, take_memory};

#[cfg(feature = "autodiff")]
use super::extension::ConvGradients;
use super::extension::{ConvBackend, ConvSpec, Operand, PoolSpec};
use super::memory;
use crate::kernels::{
    Activation, Codes, ConvGeometry, ConvShape, Isa, Joining, PIECE, Scratch, activate_gradient,
    activate_into, channel_sums, fake_quantize_gradient_into, fake_quantize_into, forward_into,
    input_gradient_into, pool_gradient_into, pool_into, term_gradient_into, weight_gradient,
    weighted_sum_into,
};

thread_local! {
    /// Kept between operations, so that only the first one of a size allocates.
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch::new()) };
}

impl ConvBackend for Flex {
    fn convolution(
        x: FlexTensor,
        w: FlexTensor,
        bias: Operand<Self>,
        spec: ConvSpec,
    ) -> FlexTensor {
        let ConvSpec { shape, activation, isa, products } = spec;
        let geometry = checked(shape).with_products(products);
        let (x, w) = (contiguous(x), contiguous(w));
        let bias = bias.given().map(contiguous);
        let bias = bias.as_ref().map(FlexTensor::storage);
        let len = geometry.output_len();
        let y = result(len, len / shape.batch, |y| {
            with(|scratch, threads| {
                let (x, w) = (x.storage(), w.storage());
                forward_into(isa, &geometry, x, w, bias, activation, y, scratch, threads);
            });
        });
        memory::keep([x]);
        let [rows, columns] = geometry.output();
        tensor(y, [shape.batch, shape.channels[1], rows, columns])
    }

    fn activation(x: FlexTensor, activation: Activation, isa: Isa) -> FlexTensor {
        let x = contiguous(x);
        let dims = x.layout().shape().to_vec();
        let y = result(dims.iter().product(), PIECE, |y| {
            activate_into(isa, activation, x.storage(), y, pool_threads());
        });
        memory::keep([x]);
        tensor(y, dims)
    }

    fn pooling(x: FlexTensor, spec: PoolSpec) -> FlexTensor {
        pooled(x, spec)
    }

    fn fake_quantization(
        x: FlexTensor,
        steps: FlexTensor,
        lowest: FlexTensor,
        levels: u32,
        isa: Isa,
    ) -> FlexTensor {
        let [x, steps, lowest] = [x, steps, lowest].map(contiguous);
        let dims = x.layout().shape().to_vec();
        let codes = Codes::of(&dims, lowest.storage(), levels);
        let steps: &[f32] = steps.storage();
        let y = result(dims.iter().product(), codes.piece(steps.len()), |y| {
            fake_quantize_into(isa, codes, steps, x.storage(), y, pool_threads());
        });
        memory::keep([x]);
        tensor(y, dims)
    }

    fn join(a: FlexTensor, b: FlexTensor) -> FlexTensor {
        let [a, b] = [a, b].map(contiguous);
        let mut dims = a.layout().shape().to_vec();
        let channels = [dims[1], b.layout().shape()[1]];
        let joining = Joining { batch: dims[0], channels, pixels: dims[2..].iter().product() };
        let y = result(joining.len(), joining.pixels.max(1), |y| {
            joining.join_into([a.storage(), b.storage()], y, pool_threads());
        });
        memory::keep([a, b]);
        dims[1] = channels.iter().sum();
        tensor(y, dims)
    }

    fn weighted_sum(
        a: FlexTensor,
        b: FlexTensor,
        c: Operand<Self>,
        weights: FlexTensor,
        isa: Isa,
    ) -> FlexTensor {
        let [a, b, weights] = [a, b, weights].map(contiguous);
        let c = c.given().map(contiguous);
        let dims = a.layout().shape().to_vec();
        let inputs: Vec<&[f32]> =
            [&a, &b].into_iter().chain(&c).map(|tensor| tensor.storage()).collect();
        let y = result(dims.iter().product(), PIECE, |y| {
            weighted_sum_into(isa, &inputs, weights.storage(), y, pool_threads());
        });
        memory::keep([a, b]);
        c.into_iter().for_each(|c| memory::keep([c]));
        tensor(y, dims)
    }
}

#[cfg(feature = "autodiff")]
impl ConvGradients for Flex {
    fn convolution_input_gradient(dy: FlexTensor, w: FlexTensor, spec: ConvSpec) -> FlexTensor {
        let ConvSpec { shape, isa, products, .. } = spec;
        let geometry = checked(shape).with_products(products);
        let (dy, w) = (contiguous(dy), contiguous(w));
        let len = geometry.input_len();
        let dx = result(len, len / shape.batch, |dx| {
            with(|scratch, threads| {
                let (dy, w) = (dy.storage(), w.storage());
                input_gradient_into(isa, &geometry, dy, w, dx, scratch, threads);
            });
        });
        memory::keep([dy]);
        let [height, width] = shape.input;
        tensor(dx, [shape.batch, shape.channels[0], height, width])
    }

    fn convolution_weight_gradient(x: FlexTensor, dy: FlexTensor, spec: ConvSpec) -> FlexTensor {
        let ConvSpec { shape, isa, products, .. } = spec;
        let geometry = checked(shape).with_products(products);
        let (x, dy) = (contiguous(x), contiguous(dy));
        let mut dw = vec![0.0; geometry.weight_len()];
        with(|scratch, threads| {
            weight_gradient(isa, &geometry, x.storage(), dy.storage(), &mut dw, scratch, threads);
        });
        memory::keep([x, dy]);
        let [rows, columns] = shape.kernel;
        tensor(dw, [shape.channels[1], shape.channels[0] / shape.groups, rows, columns])
    }

    fn channel_sums(dy: FlexTensor, isa: Isa) -> FlexTensor {
        let dy = contiguous(dy);
        let dims = dy.layout().shape();
        let (channels, pixels) = (dims[1], dims.iter().skip(2).product());
        let mut sums = vec![0.0; channels];
        with(|scratch, threads| {
            channel_sums(isa, pixels, dy.storage(), &mut sums, scratch, threads);
        });
        tensor(sums, [channels])
    }

    fn activation_gradient(
        x: FlexTensor,
        dy: FlexTensor,
        activation: Activation,
        isa: Isa,
    ) -> FlexTensor {
        let x = contiguous(x);
        let dims = x.layout().shape().to_vec();
        let mut dx = memory::into_vector(contiguous(dy));
        let pieces = Cut::new(&mut dx, PIECE);
        activate_gradient(isa, activation, x.storage(), pieces, pool_threads());
        memory::keep([x]);
        tensor(dx, dims)
    }

    fn pooling_gradient(x: FlexTensor, dy: FlexTensor, spec: PoolSpec) -> FlexTensor {
        pooled_gradient(x, dy, spec)
    }

    fn fake_quantization_gradient(
        tensors: [FlexTensor; 3],
        dy: FlexTensor,
        levels: u32,
        scale: f32,
        isa: Isa,
    ) -> [FlexTensor; 2] {
        let [x, steps, lowest] = tensors.map(contiguous);
        let dy = contiguous(dy);
        let dims = x.layout().shape().to_vec();
        let codes = Codes::of(&dims, lowest.storage(), levels);
        let mut dsteps = vec![0.0; steps.layout().shape().num_elements()];
        let (own, both) = (steps.storage(), [x.storage(), dy.storage()]);
        let dx = result(both[0].len(), codes.piece(dsteps.len()), |dx| {
            with(|scratch, threads| {
                fake_quantize_gradient_into(
                    isa,
                    codes,
                    own,
                    both,
                    dx,
                    &mut dsteps,
                    scratch,
                    threads,
                );
            });
        });
        memory::keep([x, dy]);
        dsteps.iter_mut().for_each(|dstep| *dstep *= scale);
        let count = dsteps.len();
        [tensor(dx, dims), tensor(dsteps, [count])]
    }

    fn weighted_sum_gradient(
        tensors: Vec<FlexTensor>,
        weights: FlexTensor,
        dy: FlexTensor,
        isa: Isa,
    ) -> (Vec<FlexTensor>, FlexTensor) {
        let [weights, dy] = [weights, dy].map(contiguous);
        let dims = dy.layout().shape().to_vec();
        let (mut dtensors, mut dweights) = (Vec::new(), Vec::new());
        for (input, &weight) in tensors.into_iter().zip(weights.storage::<f32>()) {
            let input = contiguous(input);
            let (x, dy): (&[f32], &[f32]) = (input.storage(), dy.storage());
            let dinput = result(dy.len(), PIECE, |dinput| {
                with(|scratch, threads| {
                    let sum = term_gradient_into(isa, weight, x, dy, dinput, scratch, threads);
                    dweights.push(sum);
                });
            });
            memory::keep([input]);
            dtensors.push(tensor(dinput, dims.clone()));
        }
        memory::keep([dy]);
        let terms = dweights.len();
        (dtensors, tensor(dweights, [terms]))
    }
}

/// A new result in pieces, in memory of a consumed tensor if there is some.
pub(super) fn result(len: usize, piece: usize, fill: impl FnOnce(Cut<'_, f32>)) -> Vec<f32> {
    fill_in_pieces(take_memory(len), len, piece, fill)
}

/// The tensor, its numbers in order and owned only by the result.
pub(super) fn contiguous(tensor: FlexTensor) -> FlexTensor {
    tensor.to_contiguous()
}

pub(super) fn with(run: impl FnOnce(&mut Scratch, usize)) {
    // Taken out, not borrowed: while this thread waits for others, rayon may give it another
    // convolution to compute.
    let mut scratch = SCRATCH.take();
    run(&mut scratch, pool_threads());
    SCRATCH.set(scratch);
}

/// Feature maps or volumes, pooled.
pub(super) fn pooled<const D: usize>(x: FlexTensor, spec: PoolSpec<D>) -> FlexTensor {
    let PoolSpec { pooling, geometry, planes, isa } = spec;
    let x = contiguous(x);
    let y = result(geometry.output_len(), geometry.output_plane(), |y| {
        with(|scratch, threads| {
            pool_into(isa, pooling, &*geometry, x.storage(), y, scratch, threads);
        });
    });
    memory::keep([x]);
    tensor(y, [&planes[..], &geometry.output()].concat())
}

/// The gradient of [`pooled`].
#[cfg(feature = "autodiff")]
pub(super) fn pooled_gradient<const D: usize>(
    x: FlexTensor,
    dy: FlexTensor,
    spec: PoolSpec<D>,
) -> FlexTensor {
    let PoolSpec { pooling, geometry, planes, isa } = spec;
    let (x, dy) = (contiguous(x), contiguous(dy));
    let dx = result(geometry.input_len(), geometry.input_plane(), |dx| {
        with(|scratch, threads| {
            let inputs = [x.storage(), dy.storage()];
            pool_gradient_into(isa, pooling, &*geometry, inputs, dx, scratch, threads);
        });
    });
    memory::keep([x, dy]);
    tensor(dx, [&planes[..], &geometry.input()].concat())
}

pub(super) fn checked<const D: usize>(shape: ConvShape<D>) -> ConvGeometry<D> {
    ConvGeometry::try_new(shape).unwrap_or_else(|error| panic!("conv{D}d: {error}"))
}

pub(super) fn tensor(values: Vec<f32>, shape: impl Into<burn::tensor::Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.into()))
}
