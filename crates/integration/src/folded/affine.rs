//! Convolutions with their norms as weights and biases in f64, from which layers are made.

use burn::module::Param;
use burn::tensor::{DType, Device, Tensor, TensorData};
use updraft_conv::{BatchNorm, Conv2d, ConvNormActivation};

/// The numbers of a tensor in f64.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// A parameter of these numbers in a dtype.
pub(crate) fn parameter<const D: usize>(
    values: Vec<f64>,
    dims: [usize; D],
    (device, dtype): (&Device, DType),
) -> Param<Tensor<D>> {
    let data = TensorData::new(values, dims).convert_dtype(dtype);
    Param::from_tensor(Tensor::from_data(data, (device, dtype)))
}

/// The factors and the summands of a batch norm by its running statistics, one for each channel.
pub(crate) fn line_of(norm: &BatchNorm) -> [Vec<f64>; 2] {
    let [gamma, beta] = [&norm.gamma, &norm.beta].map(|of| values(of.val()));
    let [mean, variance] =
        [&norm.running_mean, &norm.running_var].map(|of| values(of.value_sync()));
    let factor = |(gamma, variance): (&f64, &f64)| gamma / (variance + norm.epsilon).sqrt();
    let factors: Vec<f64> = gamma.iter().zip(&variance).map(factor).collect();
    let moved = factors.iter().zip(&mean).map(|(factor, mean)| factor * mean);
    let summands = beta.iter().zip(moved).map(|(beta, moved)| beta - moved).collect();
    [factors, summands]
}

/// The weights and biases of a convolution, and the layer whose settings it has.
#[derive(Debug, Clone)]
pub(crate) struct Affine {
    layer: Conv2d,
    /// Output channels, input channels of a group, rows and columns.
    dims: [usize; 4],
    weight: Vec<f64>,
    bias: Vec<f64>,
}

impl Affine {
    /// A convolution with its norm.
    pub(crate) fn of(block: &ConvNormActivation) -> Self {
        let ConvNormActivation { conv, norm, .. } = block;
        let [factors, mut bias] = line_of(norm);
        let mut weight = values(conv.weight.val());
        let each = weight.len() / factors.len();
        for (weights, factor) in weight.chunks_exact_mut(each).zip(&factors) {
            weights.iter_mut().for_each(|weight| *weight *= factor);
        }
        if let Some(own) = &conv.bias {
            let own = values(own.val());
            for (at, bias) in bias.iter_mut().enumerate() {
                *bias += own[at] * factors[at];
            }
        }
        Self { layer: conv.clone(), dims: conv.weight.val().dims(), weight, bias }
    }

    /// The same with its results multiplied by a factor.
    pub(crate) fn times(mut self, factor: f64) -> Self {
        self.weight.iter_mut().chain(&mut self.bias).for_each(|number| *number *= factor);
        self
    }

    /// The same of inputs that are multiplied by these factors, each of an equal share of the
    /// channels.
    pub(crate) fn of_scaled(mut self, factors: &[f64]) -> Self {
        let [_, inputs, rows, columns] = self.dims;
        let share = inputs / factors.len() * rows * columns;
        for (weights, factor) in self.weight.chunks_exact_mut(share).zip(factors.iter().cycle()) {
            weights.iter_mut().for_each(|weight| *weight /= factor);
        }
        self
    }

    /// Two convolutions of one shape in one of two groups, of the channels of both inputs.
    ///
    /// # Panics
    /// If the shapes differ.
    pub(crate) fn beside(mut self, other: Self) -> Self {
        assert_eq!(self.dims, other.dims, "both pathways have one shape");
        self.dims[0] *= 2;
        self.layer.groups = 2;
        self.weight.extend(other.weight);
        self.bias.extend(other.bias);
        self
    }

    /// The layer, in the dtype of the network's.
    pub(crate) fn into_layer(self) -> Conv2d {
        let Self { mut layer, dims, weight, bias } = self;
        let own = layer.weight.val();
        let (device, dtype) = (own.device(), own.dtype());
        layer.weight = parameter(weight, dims, (&device, dtype));
        layer.bias = Some(parameter(bias, [dims[0]], (&device, dtype)));
        layer
    }
}
