//! Our operations on burn's CPU backend.

use std::cell::RefCell;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::TensorData;

use super::extension::{ConvBackend, ConvSpec, NormSpec, PoolSpec, SumSpec};
use crate::kernels::{
    Activation, BatchNormShape, ConvGeometry, ConvShape, GradientPass, Normalization, PIECE, Path,
    Scratch, activate_gradient_into, activate_into, apply_into, bias_gradient, forward_into, fresh,
    input_gradient_into, moments, pool_gradient_into, pool_into, term_gradient_into,
    weight_gradient, weighted_sum_into,
};

thread_local! {
    /// Kept between operations, so that only the first of a size allocates it.
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch::new()) };
}

impl ConvBackend for Flex {
    fn convolution(x: FlexTensor, w: FlexTensor, bias: FlexTensor, spec: ConvSpec) -> FlexTensor {
        let ConvSpec { shape, has_bias, activation, path } = spec;
        let geometry = checked(shape);
        let (x, w) = (x.to_contiguous(), w.to_contiguous());
        let bias = has_bias.then(|| bias.to_contiguous());
        let bias = bias.as_ref().map(FlexTensor::storage);
        let len = geometry.output_len();
        let y = fresh(len, len / shape.batch, |y| {
            with(|scratch, threads| {
                let (x, w) = (x.storage(), w.storage());
                forward_into(path, &geometry, x, w, bias, activation, y, scratch, threads);
            });
        });
        let [rows, columns] = geometry.output();
        tensor(y, [shape.batch, shape.channels[1], rows, columns])
    }

    fn convolution_input_gradient(dy: FlexTensor, w: FlexTensor, spec: ConvSpec) -> FlexTensor {
        let ConvSpec { shape, path, .. } = spec;
        let geometry = checked(shape);
        let (dy, w) = (dy.to_contiguous(), w.to_contiguous());
        let len = geometry.input_len();
        let dx = fresh(len, len / shape.batch, |dx| {
            with(|scratch, threads| {
                let (dy, w) = (dy.storage(), w.storage());
                input_gradient_into(path, &geometry, dy, w, dx, scratch, threads);
            });
        });
        let [height, width] = shape.input;
        tensor(dx, [shape.batch, shape.channels[0], height, width])
    }

    fn convolution_weight_gradient(x: FlexTensor, dy: FlexTensor, spec: ConvSpec) -> FlexTensor {
        let ConvSpec { shape, path, .. } = spec;
        let geometry = checked(shape);
        let (x, dy) = (x.to_contiguous(), dy.to_contiguous());
        let mut dw = vec![0.0; geometry.weight_len()];
        with(|scratch, threads| {
            weight_gradient(path, &geometry, x.storage(), dy.storage(), &mut dw, scratch, threads);
        });
        let [rows, columns] = shape.kernel;
        tensor(dw, [shape.channels[1], shape.channels[0] / shape.groups, rows, columns])
    }

    fn convolution_bias_gradient(dy: FlexTensor, spec: ConvSpec) -> FlexTensor {
        let geometry = checked(spec.shape);
        let dy = dy.to_contiguous();
        let mut dbias = vec![0.0; spec.shape.channels[1]];
        with(|scratch, threads| {
            bias_gradient(spec.path, &geometry, dy.storage(), &mut dbias, scratch, threads);
        });
        tensor(dbias, [spec.shape.channels[1]])
    }

    fn activation(x: FlexTensor, activation: Activation, path: Path) -> FlexTensor {
        let x = x.to_contiguous();
        let dims = x.layout().shape().to_vec();
        let y = fresh(dims.iter().product(), PIECE, |y| {
            activate_into(path, activation, x.storage(), y, threads());
        });
        tensor(y, dims)
    }

    fn activation_gradient(
        x: FlexTensor,
        dy: FlexTensor,
        activation: Activation,
        path: Path,
    ) -> FlexTensor {
        let (x, dy) = (x.to_contiguous(), dy.to_contiguous());
        let dims = x.layout().shape().to_vec();
        let dx = fresh(dims.iter().product(), PIECE, |dx| {
            activate_gradient_into(path, activation, x.storage(), dy.storage(), dx, threads());
        });
        tensor(dx, dims)
    }

    fn normalization(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        residual: FlexTensor,
        spec: NormSpec,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let x = x.to_contiguous();
        let shape = norm_shape(&x);
        let (mut mean, mut variance) = (vec![0.0; shape.channels], vec![0.0; shape.channels]);
        with(|scratch, threads| {
            let statistics = [&mut mean[..], &mut variance[..]];
            moments(spec.path, shape, x.storage(), statistics, scratch, threads);
        });
        let vector = |values| tensor(values, [shape.channels]);
        let (mean, variance) = (vector(mean), vector(variance));
        let statistics = (mean.clone(), variance.clone());
        let y = Self::normalization_by(x, gamma, beta, statistics.0, statistics.1, residual, spec);
        (y, mean, variance)
    }

    fn normalization_by(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        mean: FlexTensor,
        variance: FlexTensor,
        residual: FlexTensor,
        spec: NormSpec,
    ) -> FlexTensor {
        let [x, gamma, beta, mean, variance] =
            [x, gamma, beta, mean, variance].map(|tensor| tensor.to_contiguous());
        let residual = spec.has_residual.then(|| residual.to_contiguous());
        let shape = norm_shape(&x);
        let by = normalization(&gamma, &beta, residual.as_ref(), spec);
        let statistics = [mean.storage(), variance.storage()];
        let y = fresh(shape.len(), shape.pixels, |y| {
            apply_into(spec.path, shape, by, statistics, x.storage(), y, threads());
        });
        tensor(y, x.layout().shape().to_vec())
    }

    fn normalization_gradient(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        mean: FlexTensor,
        variance: FlexTensor,
        residual: FlexTensor,
        dy: FlexTensor,
        spec: NormSpec,
    ) -> (FlexTensor, FlexTensor, FlexTensor, FlexTensor) {
        let [x, gamma, beta, mean, variance, dy] =
            [x, gamma, beta, mean, variance, dy].map(|tensor| tensor.to_contiguous());
        let residual = spec.has_residual.then(|| residual.to_contiguous());
        let dims = x.layout().shape().to_vec();
        let shape = norm_shape(&x);
        let (mut dgamma, mut dbeta) = (vec![0.0; shape.channels], vec![0.0; shape.channels]);
        let by = normalization(&gamma, &beta, residual.as_ref(), spec);
        let statistics = [mean.storage(), variance.storage()];
        let inputs = [x.storage(), dy.storage()];
        let (mut dx, mut dresidual) = (Vec::new(), vec![0.0]);
        with(|scratch, threads| {
            let vectors = [&mut dgamma[..], &mut dbeta[..]];
            let NormSpec { of, path, .. } = spec;
            let pass = GradientPass::new(
                path, shape, by, of, statistics, inputs, vectors, scratch, threads,
            );
            dx = fresh(shape.len(), shape.pixels, |dx| match residual {
                None => pass.input(dx),
                Some(_) => {
                    dresidual = fresh(shape.len(), shape.pixels, |dresidual| {
                        pass.input_and_residual((dx, dresidual));
                    });
                }
            });
        });
        let vector = |values| tensor(values, [shape.channels]);
        let dresidual = match residual {
            Some(_) => tensor(dresidual, dims.clone()),
            None => tensor(dresidual, [1]),
        };
        (tensor(dx, dims), vector(dgamma), vector(dbeta), dresidual)
    }

    fn pooling(x: FlexTensor, spec: PoolSpec) -> FlexTensor {
        let PoolSpec { pooling, geometry, planes, path } = spec;
        let x = x.to_contiguous();
        let [rows, columns] = geometry.output();
        let y = fresh(geometry.output_len(), geometry.output_plane(), |y| {
            with(|scratch, threads| {
                pool_into(path, pooling, &geometry, x.storage(), y, scratch, threads);
            });
        });
        tensor(y, [planes[0], planes[1], rows, columns])
    }

    fn pooling_gradient(x: FlexTensor, dy: FlexTensor, spec: PoolSpec) -> FlexTensor {
        let PoolSpec { pooling, geometry, planes, path } = spec;
        let (x, dy) = (x.to_contiguous(), dy.to_contiguous());
        let [height, width] = geometry.input();
        let dx = fresh(geometry.input_len(), geometry.input_plane(), |dx| {
            with(|scratch, threads| {
                let (x, dy) = (x.storage(), dy.storage());
                pool_gradient_into(path, pooling, &geometry, x, dy, dx, scratch, threads);
            });
        });
        tensor(dx, [planes[0], planes[1], height, width])
    }

    fn weighted_sum(
        a: FlexTensor,
        b: FlexTensor,
        c: FlexTensor,
        weights: FlexTensor,
        spec: SumSpec,
    ) -> FlexTensor {
        let [a, b, c, weights] = [a, b, c, weights].map(|tensor| tensor.to_contiguous());
        let dims = a.layout().shape().to_vec();
        let inputs = [a.storage(), b.storage(), c.storage()];
        let y = fresh(dims.iter().product(), PIECE, |y| {
            let inputs = &inputs[..spec.terms];
            weighted_sum_into(spec.path, inputs, weights.storage(), y, threads());
        });
        tensor(y, dims)
    }

    fn weighted_sum_gradient(
        a: FlexTensor,
        b: FlexTensor,
        c: FlexTensor,
        weights: FlexTensor,
        dy: FlexTensor,
        spec: SumSpec,
    ) -> (FlexTensor, FlexTensor, FlexTensor, FlexTensor) {
        let [a, b, c, weights, dy] = [a, b, c, weights, dy].map(|tensor| tensor.to_contiguous());
        let dims = dy.layout().shape().to_vec();
        let (dy, weights) = (dy.storage(), weights.storage::<f32>());
        let mut dweights = vec![0.0; spec.terms];
        let mut gradient = |term: usize, input: &FlexTensor| {
            if term == spec.terms {
                return tensor(vec![0.0], [1]);
            }
            let mut dinput = Vec::new();
            with(|scratch, threads| {
                dinput = fresh(dy.len(), PIECE, |dinput| {
                    let (x, weight) = (input.storage(), weights[term]);
                    dweights[term] =
                        term_gradient_into(spec.path, weight, x, dy, dinput, scratch, threads);
                });
            });
            tensor(dinput, dims.clone())
        };
        let gradients = (gradient(0, &a), gradient(1, &b), gradient(2, &c));
        (gradients.0, gradients.1, gradients.2, tensor(dweights, [spec.terms]))
    }
}

fn with(run: impl FnOnce(&mut Scratch, usize)) {
    // Taken out, not borrowed: while this thread waits for others, rayon may give it another
    // convolution to compute.
    let mut scratch = SCRATCH.take();
    run(&mut scratch, threads());
    SCRATCH.set(scratch);
}

/// As many as burn's own operations use.
#[cfg(feature = "rayon")]
fn threads() -> usize {
    rayon::current_num_threads()
}

#[cfg(not(feature = "rayon"))]
const fn threads() -> usize {
    1
}

fn checked(shape: ConvShape) -> ConvGeometry {
    ConvGeometry::try_new(shape).unwrap_or_else(|error| panic!("conv2d: {error}"))
}

fn norm_shape(x: &FlexTensor) -> BatchNormShape {
    let dims = x.layout().shape();
    let pixels = dims.iter().skip(2).product();
    BatchNormShape { batch: dims[0], channels: dims[1], pixels }
}

fn normalization<'a>(
    gamma: &'a FlexTensor,
    beta: &'a FlexTensor,
    residual: Option<&'a FlexTensor>,
    spec: NormSpec,
) -> Normalization<'a> {
    let NormSpec { epsilon, activation, .. } = spec;
    let residual = residual.map(FlexTensor::storage);
    Normalization { gamma: gamma.storage(), beta: beta.storage(), epsilon, residual, activation }
}

fn tensor(values: Vec<f32>, shape: impl Into<burn::tensor::Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.into()))
}
