//! Our operations on burn's CPU backend.

use std::cell::RefCell;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::TensorData;

use super::extension::ConvBackend;
use crate::kernels::{
    Activation, BatchNormShape, ConvGeometry, ConvShape, NormGradients, Normalization, Path,
    Scratch, Statistics, batch_norm, batch_norm_gradient, forward, input_gradient, weight_gradient,
};

thread_local! {
    /// Kept between operations, so that only the first of a size allocates it.
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch::new()) };
}

impl ConvBackend for Flex {
    fn convolution(x: FlexTensor, w: FlexTensor, shape: ConvShape) -> FlexTensor {
        let geometry = checked(shape);
        let (x, w) = (x.to_contiguous(), w.to_contiguous());
        let mut y = vec![0.0; geometry.output_len()];
        with(|path, scratch, threads| {
            forward(path, &geometry, x.storage(), w.storage(), None, &mut y, scratch, threads);
        });
        let [rows, columns] = geometry.output();
        tensor(y, [shape.batch, shape.channels[1], rows, columns])
    }

    fn convolution_input_gradient(dy: FlexTensor, w: FlexTensor, shape: ConvShape) -> FlexTensor {
        let geometry = checked(shape);
        let (dy, w) = (dy.to_contiguous(), w.to_contiguous());
        let mut dx = vec![0.0; geometry.input_len()];
        with(|path, scratch, threads| {
            input_gradient(path, &geometry, dy.storage(), w.storage(), &mut dx, scratch, threads);
        });
        let [height, width] = shape.input;
        tensor(dx, [shape.batch, shape.channels[0], height, width])
    }

    fn convolution_weight_gradient(x: FlexTensor, dy: FlexTensor, shape: ConvShape) -> FlexTensor {
        let geometry = checked(shape);
        let (x, dy) = (x.to_contiguous(), dy.to_contiguous());
        let mut dw = vec![0.0; geometry.weight_len()];
        with(|path, scratch, threads| {
            weight_gradient(path, &geometry, x.storage(), dy.storage(), &mut dw, scratch, threads);
        });
        let [rows, columns] = shape.kernel;
        tensor(dw, [shape.channels[1], shape.channels[0] / shape.groups, rows, columns])
    }

    fn normalization(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        epsilon: f64,
        activation: Activation,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.to_contiguous());
        let dims = x.layout().shape().to_vec();
        let shape = norm_shape(&dims);
        let mut y = vec![0.0; shape.len()];
        let (mut mean, mut variance) = (vec![0.0; shape.channels], vec![0.0; shape.channels]);
        let statistics = Statistics { mean: &mut mean, variance: &mut variance };
        let by = normalization(&gamma, &beta, epsilon, activation);
        with(|path, scratch, threads| {
            batch_norm(path, shape, by, x.storage(), &mut y, statistics, scratch, threads);
        });
        let vector = |values| tensor(values, [shape.channels]);
        (tensor(y, dims), vector(mean), vector(variance))
    }

    fn normalization_gradient(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        mean: FlexTensor,
        variance: FlexTensor,
        dy: FlexTensor,
        epsilon: f64,
        activation: Activation,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let [x, gamma, beta, mean, variance, dy] =
            [x, gamma, beta, mean, variance, dy].map(|tensor| tensor.to_contiguous());
        let dims = x.layout().shape().to_vec();
        let shape = norm_shape(&dims);
        let mut dx = vec![0.0; shape.len()];
        let (mut dgamma, mut dbeta) = (vec![0.0; shape.channels], vec![0.0; shape.channels]);
        let gradients = NormGradients { dx: &mut dx, dgamma: &mut dgamma, dbeta: &mut dbeta };
        let by = normalization(&gamma, &beta, epsilon, activation);
        let statistics = [mean.storage(), variance.storage()];
        with(|path, scratch, threads| {
            let (x, dy) = (x.storage(), dy.storage());
            batch_norm_gradient(path, shape, by, statistics, x, dy, gradients, scratch, threads);
        });
        let vector = |values| tensor(values, [shape.channels]);
        (tensor(dx, dims), vector(dgamma), vector(dbeta))
    }
}

fn with(run: impl FnOnce(Path, &mut Scratch, usize)) {
    // Taken out, not borrowed: while this thread waits for others, rayon may give it another
    // convolution to compute.
    let mut scratch = SCRATCH.take();
    run(Path::detect(), &mut scratch, threads());
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

fn norm_shape(dims: &[usize]) -> BatchNormShape {
    BatchNormShape { batch: dims[0], channels: dims[1], pixels: dims[2..].iter().product() }
}

fn normalization<'a>(
    gamma: &'a FlexTensor,
    beta: &'a FlexTensor,
    epsilon: f64,
    activation: Activation,
) -> Normalization<'a> {
    Normalization { gamma: gamma.storage(), beta: beta.storage(), epsilon, activation }
}

fn tensor(values: Vec<f32>, shape: impl Into<burn::tensor::Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.into()))
}
