//! A batch normalization.

use burn::module::{Flag, Module, Param, RunningState};
use burn::nn::{self, BatchNormConfig};
use burn::tensor::{Device, FloatDType, Tensor};
use updraft_simd::time_layer;

use crate::kernels::Activation;
#[cfg(feature = "cube")]
use crate::ops::stored_on_gpus;
use crate::ops::{LayerPath, Normalizing, PlainReason, normalize, wide};

/// A batch normalization over all axes but the second, replacing burn's `BatchNorm`, with the same
/// record format.
///
/// `y = (x − mean)/√(variance + ε)·γ + β`, with the batch's statistics while training and the
/// running ones otherwise. It trains where burn's does: on an autodiff device, unless it is
/// frozen. Statistics and arithmetic are in at least f32; the result has the input's dtype.
///
/// On flex and on GPUs it runs our kernels; f64 and every other backend take burn's own operations,
/// with the same result. Those for GPUs read and write bf16 and f16 in memory where the device has
/// them.
///
/// # Source
/// Ioffe and Szegedy 2015, arXiv:1502.03167; the running variance is without Bessel's correction,
/// as burn's.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// γ, `[channels]`.
    pub gamma: Param<Tensor<1>>,
    /// β, `[channels]`.
    pub beta: Param<Tensor<1>>,
    /// Whether it trains.
    pub training: Param<Flag>,
    /// The running mean, `[channels]`.
    pub running_mean: RunningState<Tensor<1>>,
    /// The running variance, `[channels]`.
    pub running_var: RunningState<Tensor<1>>,
    /// The momentum: the weight of each batch's statistics in the running ones.
    pub momentum: f64,
    /// ε.
    pub epsilon: f64,
    #[module(skip)]
    forced: Option<LayerPath>,
}

impl From<nn::BatchNorm> for BatchNorm {
    fn from(layer: nn::BatchNorm) -> Self {
        let nn::BatchNorm { gamma, beta, training, running_mean, running_var, momentum, epsilon } =
            layer;
        Self { gamma, beta, training, running_mean, running_var, momentum, epsilon, forced: None }
    }
}

impl From<BatchNorm> for nn::BatchNorm {
    fn from(layer: BatchNorm) -> Self {
        let BatchNorm {
            gamma, beta, training, running_mean, running_var, momentum, epsilon, ..
        } = layer;
        Self { gamma, beta, training, running_mean, running_var, momentum, epsilon }
    }
}

impl BatchNorm {
    /// Creates the layer from burn's config.
    ///
    /// # Panics
    /// As burn's: if there are no channels, or ε or the momentum is out of range.
    #[must_use]
    pub fn new(config: &BatchNormConfig, device: &Device) -> Self {
        config.init(device).into()
    }

    /// The same layer with a γ that is not trained, which is 1 in a new layer.
    ///
    /// After a normalization without scale the next layer's weights decide the size of each
    /// channel; with weight decay, γ would shrink instead of them.
    #[must_use]
    pub fn without_scale(self) -> Self {
        Self { gamma: self.gamma.set_require_grad(false), ..self }
    }

    /// Normalizes `x`, `[batch, channels, ...]`.
    ///
    /// # Panics
    /// If the second axis does not have the layer's number of channels, `x` is empty, or a
    /// [forced](Self::with_path) path cannot compute it.
    #[must_use]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.normalize(x, None, Activation::Identity)
    }

    /// Normalizes, then activates, in one pass over memory.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[must_use]
    pub fn forward_activated<const D: usize>(
        &self,
        x: Tensor<D>,
        activation: Activation,
    ) -> Tensor<D> {
        self.normalize(x, None, activation)
    }

    /// Normalizes, adds `residual`, then activates, in one pass over memory.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if `residual` does not have the shape and dtype of `x`.
    #[must_use]
    pub fn forward_residual<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        activation: Activation,
    ) -> Tensor<D> {
        assert_eq!(x.dtype(), residual.dtype(), "the dtypes of input and residual");
        self.normalize(x, Some(residual), activation)
    }

    /// Which implementation computes the layer in f32 on its parameters' device.
    #[must_use]
    pub fn path(&self) -> LayerPath {
        self.picked().unwrap_or(LayerPath::Plain)
    }

    /// Why burn's own operations compute the layer in f32 on its parameters' device; `None` if our
    /// kernels do.
    #[must_use]
    pub fn plain_reason(&self) -> Option<PlainReason> {
        self.picked().err()
    }

    fn picked(&self) -> Result<LayerPath, PlainReason> {
        LayerPath::of_batch_norm(self.forced, &self.gamma.device())
    }

    /// The same layer with a forced implementation.
    ///
    /// Its [`forward`](Self::forward) panics if the device or the processor does not support it.
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        Self { forced: Some(path), ..self }
    }

    fn normalize<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Option<Tensor<D>>,
        activation: Activation,
    ) -> Tensor<D> {
        let (dtype, device) = (x.dtype(), x.device());
        let path = LayerPath::picked_for_batch_norm(self.forced, &device, dtype);
        let (compute, stored) = match path {
            LayerPath::Kernels(_) => (FloatDType::F32, FloatDType::F32),
            #[cfg(feature = "cube")]
            LayerPath::Cube => (FloatDType::F32, stored_on_gpus(&device, dtype)),
            #[cfg(not(feature = "cube"))]
            LayerPath::Cube => unreachable!("kernels are picked where they are compiled"),
            LayerPath::Plain => (wide(dtype), wide(dtype)),
        };
        let trains = device.is_autodiff() && self.training.is_enabled();
        let given = (!trains).then(|| {
            [&self.running_mean, &self.running_var]
                .map(|state| state.value_sync().to_device(&device).cast(compute))
        });
        let by = Normalizing {
            gamma: self.gamma.val().cast(compute),
            beta: self.beta.val().cast(compute),
            given,
            residual: residual.map(|residual| residual.cast(stored)),
            epsilon: self.epsilon,
            activation,
        };
        let run = || normalize(x.cast(stored), by, path);
        let (output, statistics) = time_layer(self.gamma.id.val(), "batch normalization", run);
        if let Some([mean, variance]) = statistics {
            self.follow(&self.running_mean, mean);
            self.follow(&self.running_var, variance);
        }
        output.cast(dtype)
    }

    /// Updates a running statistic with the batch's, by `momentum`.
    fn follow(&self, state: &RunningState<Tensor<1>>, batch: Tensor<1>) {
        let running = state.value_sync().to_device(&batch.device());
        let batch = batch.detach().cast(running.dtype());
        let next = running.mul_scalar(1.0 - self.momentum) + batch.mul_scalar(self.momentum);
        state.update(next.detach());
    }
}
