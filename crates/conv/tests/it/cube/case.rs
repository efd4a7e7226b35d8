//! A batch with the parameters of a normalization and what both should give, for tests on GPUs.

use burn::module::{Param, RunningState};
use burn::nn::BatchNormConfig;
use burn::tensor::{Device, Tensor, TensorData};
use updraft_conv::{Activation, BatchNorm, LayerPath, Slope};
use updraft_testing::{Numbers, assert_close_to_largest, normal, scattered, tolerance};

/// Of a new layer.
const EPSILON: f64 = 1e-5;

pub(super) const ACTIVATIONS: [Activation; 8] = [
    Activation::Identity,
    Activation::Relu,
    Activation::Silu,
    Activation::Elu,
    Activation::LeakyRelu(Slope::new(0.125)),
    Activation::Relu6,
    Activation::HardSwish,
    Activation::Gelu,
];

/// What a layer normalizes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The batch's own statistics.
    Batch,
    /// The running ones.
    Running,
}

/// A layer, a batch `[batch, channels, pixels]` and the gradient of the result.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) dims: [usize; 3],
    pub(super) by: By,
    pub(super) activation: Activation,
    pub(super) x: Vec<f32>,
    pub(super) dy: Vec<f32>,
    pub(super) residual: Option<Vec<f32>>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    running: [Vec<f32>; 2],
}

/// The result, then the gradients of `x`, γ, β and the residual.
pub(super) type Results<T> = [Vec<T>; 5];

pub(super) const NAMES: [&str; 5] = ["y", "dx", "d gamma", "d beta", "d residual"];

fn shifted(seed: u32, count: usize, offset: f32) -> Vec<f32> {
    scattered(seed, count).into_iter().map(|number| number + offset).collect()
}

impl Case {
    pub(super) fn new(dims: [usize; 3], by: By, activation: Activation) -> Self {
        let (len, channels) = (dims.iter().product(), dims[1]);
        Self {
            dims,
            by,
            activation,
            x: scattered(1, len),
            dy: scattered(2, len),
            residual: None,
            gamma: shifted(3, channels, 1.5),
            beta: scattered(4, channels),
            running: [scattered(6, channels), shifted(7, channels, 1.5)],
        }
    }

    pub(super) fn with_residual(self) -> Self {
        Self { residual: Some(scattered(5, self.x.len())), ..self }
    }

    /// Far from zero by so much.
    pub(super) fn at(self, offset: f32) -> Self {
        Self { x: shifted(1, self.x.len(), offset), ..self }
    }

    pub(super) fn layer(&self, device: &Device) -> BatchNorm {
        let vector = |values: &[f32]| Tensor::<1>::from_data(values, device);
        let mut layer = BatchNorm::new(&BatchNormConfig::new(self.dims[1]), device);
        layer.gamma = Param::from_tensor(vector(&self.gamma));
        layer.beta = Param::from_tensor(vector(&self.beta));
        layer.running_mean = RunningState::new(vector(&self.running[0]));
        layer.running_var = RunningState::new(vector(&self.running[1]));
        layer.training = layer.training.with_value(self.by == By::Batch);
        layer
    }

    /// A tensor of the batch's size and of this shape.
    pub(super) fn tensor<const D: usize>(
        &self,
        values: &[f32],
        shape: [usize; D],
        device: &Device,
    ) -> Tensor<D> {
        Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
    }

    /// The result of a layer.
    pub(super) fn forward<const D: usize>(
        &self,
        layer: &BatchNorm,
        x: Tensor<D>,
        residual: Option<Tensor<D>>,
    ) -> Tensor<D> {
        match residual {
            Some(residual) => layer.forward_residual(x, residual, self.activation),
            None => layer.forward_activated(x, self.activation),
        }
    }

    /// The results on a device with autodiff, by a path.
    pub(super) fn run(&self, device: &Device, path: Option<LayerPath>) -> Results<f32> {
        self.run_in_shape(device, self.dims, path)
    }

    /// The same of a tensor of this shape.
    pub(super) fn run_in_shape<const D: usize>(
        &self,
        device: &Device,
        shape: [usize; D],
        path: Option<LayerPath>,
    ) -> Results<f32> {
        let layer = self.layer(device);
        assert_eq!((layer.path(), layer.plain_reason()), (LayerPath::Cube, None));
        let layer = match path {
            Some(path) => layer.with_path(path),
            None => layer,
        };
        let x = self.tensor(&self.x, shape, device).require_grad();
        let residual = self.residual.as_ref();
        let residual = residual.map(|values| self.tensor(values, shape, device).require_grad());
        let dy = self.tensor(&self.dy, shape, device);
        let y = self.forward(&layer, x.clone(), residual.clone());
        let gradients = (y.clone() * dy).sum().backward();
        [
            values(y),
            values(x.grad(&gradients).expect("takes part")),
            values(layer.gamma.val().grad(&gradients).expect("takes part")),
            values(layer.beta.val().grad(&gradients).expect("takes part")),
            residual
                .map(|tensor| values(tensor.grad(&gradients).expect("takes part")))
                .unwrap_or_default(),
        ]
    }

    /// By the definition, in f64.
    pub(super) fn expected(&self) -> Results<f64> {
        let wide = |values: &[f32]| values.numbers();
        let [x, dy, gamma, beta] = [&self.x, &self.dy, &self.gamma, &self.beta].map(|v| wide(v));
        let residual = self.residual.as_deref().map(wide);
        let [batch, channels, pixels] = self.dims;
        let count = (batch * pixels) as f64;
        let [mut y, mut dx, mut dresidual] = [(); 3].map(|()| vec![0.0; x.len()]);
        let [mut dgamma, mut dbeta] = [(); 2].map(|()| vec![0.0; channels]);
        let [means, variances] = self.moments();
        for channel in 0..channels {
            let all = numbers_of(channel, self.dims);
            let (mean, deviation) = (means[channel], (variances[channel] + EPSILON).sqrt());
            let centred = |at: usize| (x[at] - mean) / deviation;
            for &at in &all {
                let added = residual.as_ref().map_or(0.0, |residual| residual[at]);
                let z = centred(at) * gamma[channel] + beta[channel] + added;
                let [value, slope] = function(self.activation, z);
                y[at] = value;
                // A gradient that the activation stops has no value behind it.
                dresidual[at] = if slope == 0.0 { 0.0 } else { dy[at] * slope };
            }
            dbeta[channel] = all.iter().map(|&at| dresidual[at]).sum();
            dgamma[channel] = all.iter().map(|&at| dresidual[at] * centred(at)).sum();
            let of_statistics = match self.by {
                By::Batch => 1.0 / count,
                By::Running => 0.0,
            };
            for &at in &all {
                let through = match self.by {
                    By::Batch => dbeta[channel] + centred(at) * dgamma[channel],
                    By::Running => 0.0,
                };
                dx[at] = gamma[channel] / deviation * (dresidual[at] - through * of_statistics);
            }
        }
        if residual.is_none() {
            dresidual.clear();
        }
        [y, dx, dgamma, dbeta, dresidual]
    }

    /// The means and variances that the layer normalizes by, in f64.
    pub(super) fn moments(&self) -> [Vec<f64>; 2] {
        if self.by == By::Running {
            return self.running.each_ref().map(|values| values.numbers());
        }
        let of_channel = |channel| {
            let all: Vec<f64> = numbers_of(channel, self.dims)
                .into_iter()
                .map(|at| f64::from(self.x[at]))
                .collect();
            let count = all.len() as f64;
            let mean = all.iter().sum::<f64>() / count;
            (mean, all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count)
        };
        let (means, variances) = (0..self.dims[1]).map(of_channel).unzip();
        [means, variances]
    }

    /// Compares the kernels with the definition.
    pub(super) fn check(&self, device: &Device) {
        self.compare(&self.run(device, None));
    }

    #[expect(clippy::print_stdout, reason = "which case failed")]
    pub(super) fn compare(&self, actual: &Results<f32>) {
        for ((name, actual), expected) in NAMES.iter().zip(actual).zip(&self.expected()) {
            println!("{name} of {:?}, by {:?}, {:?}", self.dims, self.by, self.activation);
            assert_close_to_largest(actual, expected, tolerance::F32);
        }
    }
}

/// The indices of a channel's numbers.
pub(super) fn numbers_of(channel: usize, [batch, channels, pixels]: [usize; 3]) -> Vec<usize> {
    let sample = |sample| {
        let first = (sample * channels + channel) * pixels;
        first..first + pixels
    };
    (0..batch).flat_map(sample).collect()
}

/// An activation and its slope in f64, by their definitions.
pub(super) fn function(activation: Activation, z: f64) -> [f64; 2] {
    let sigmoid = 1.0 / (1.0 + (-z).exp());
    match activation {
        Activation::Relu if z <= 0.0 => [0.0; 2],
        Activation::Relu6 if z <= 0.0 => [0.0; 2],
        Activation::Relu6 if z >= 6.0 => [6.0, 0.0],
        Activation::Silu => [z * sigmoid, sigmoid * (1.0 + z * (1.0 - sigmoid))],
        Activation::Elu if z <= 0.0 => [z.exp_m1(), z.exp()],
        Activation::LeakyRelu(slope) if z < 0.0 => {
            let slope = f64::from(slope.get());
            [slope * z, slope]
        }
        Activation::HardSwish if z <= -3.0 => [0.0; 2],
        Activation::HardSwish if z < 3.0 => [z * (z + 3.0) / 6.0, z / 3.0 + 0.5],
        Activation::Gelu => {
            let [distribution, density] = normal(z);
            [z * distribution, distribution + z * density]
        }
        _ => [z, 1.0],
    }
}

pub(super) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32")
}

/// All results in bits.
pub(super) fn bits(results: &Results<f32>) -> Vec<u32> {
    results.iter().flatten().map(|value| value.to_bits()).collect()
}
