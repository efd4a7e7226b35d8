//! Stochastic gradient descent with momentum.

use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

/// Stochastic gradient descent, in one pass over each parameter on the CPU.
///
/// With the gradient `g`:
///
/// ```text
/// g ← g + decay·p
/// v ← momentum·v + g, and g in the first step
/// p ← p − rate · v, or with Nesterov momentum p − rate · (g + momentum·v)
/// ```
///
/// Parameters in f32 on burn's `flex` backend are updated by our kernel, with the feature `flex`;
/// every other parameter by burn's operations. The bits of both are those of burn's own
/// [`Sgd`](burn::optim::Sgd) without dampening, and so is the state in a record.
///
/// # Source
/// Sutskever, Martens, Dahl and Hinton 2013, "On the importance of initialization and momentum in
/// deep learning", in the form of PyTorch's `SGD`.
///
/// # Example
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::{GradientsParams, ModuleOptimizer};
/// use burn::tensor::{Device, Tensor};
/// use updraft_optim::Sgd;
///
/// let device = Device::flex().autodiff();
/// let model = LinearConfig::new(2, 3).init(&device);
/// let mut optimizer = ModuleOptimizer::from(Sgd::new().with_momentum(0.9).with_nesterov(true));
/// let loss = model.forward(Tensor::<2>::ones([4, 2], &device)).sum();
/// let gradients = GradientsParams::from_grads(loss.backward(), &model);
/// let model = optimizer.step(1e-2, model, gradients);
/// # let _ = model;
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sgd {
    momentum: f32,
    is_nesterov: bool,
    weight_decay: f32,
}

/// The state of [`Sgd`] for a parameter.
#[derive(Debug, Clone)]
pub struct SgdState<const D: usize> {
    /// The sum of earlier gradients, each of which counts less than the next one; `None` without
    /// momentum.
    pub velocity: Option<Tensor<D>>,
}

/// Where a record of burn's optimizer has the velocity.
const VELOCITY: &str = "momentum.velocity";

impl<const D: usize> RecordState for SgdState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        if let Some(velocity) = &self.velocity {
            out.push_tensor(prefix, VELOCITY, velocity.clone().into_data());
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let velocity = src.take_tensor(prefix, VELOCITY);
        Some(Self { velocity: velocity.map(|data| Tensor::from_data(data, device)) })
    }
}

impl Default for Sgd {
    fn default() -> Self {
        Self::new()
    }
}

impl Sgd {
    /// Without momentum and weight decay.
    #[must_use]
    pub const fn new() -> Self {
        Self { momentum: 0.0, is_nesterov: false, weight_decay: 0.0 }
    }

    /// The factor of the velocity in each step; 0 keeps no velocity.
    ///
    /// # Panics
    /// If it is not in `[0, 1)`.
    #[must_use]
    pub const fn with_momentum(self, momentum: f32) -> Self {
        assert!(momentum >= 0.0 && momentum < 1.0, "`momentum` must be at least 0 and below 1");
        Self { momentum, ..self }
    }

    /// Whether a parameter moves by the velocity that it would have one step later.
    #[must_use]
    pub const fn with_nesterov(self, is_nesterov: bool) -> Self {
        Self { is_nesterov, ..self }
    }

    /// The L2 penalty: this times the parameter is added to its gradient.
    ///
    /// # Panics
    /// If it is not at least 0 and finite.
    #[must_use]
    pub const fn with_weight_decay(self, weight_decay: f32) -> Self {
        let is_decay = weight_decay >= 0.0 && weight_decay.is_finite();
        assert!(is_decay, "`weight_decay` must be at least 0 and finite");
        Self { weight_decay, ..self }
    }

    /// The penalty, if there is one.
    fn penalty(&self) -> Option<f32> {
        (self.weight_decay > 0.0).then_some(self.weight_decay)
    }

    /// A step by burn's operations, those of its own optimizer.
    fn plain<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        velocity: Option<Tensor<D>>,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        let gradient = match self.penalty() {
            Some(penalty) => parameter.clone().mul_scalar(penalty).add(gradient),
            None => gradient,
        };
        if self.momentum == 0.0 {
            return (parameter - gradient.mul_scalar(learning_rate), None);
        }
        let velocity = match velocity {
            Some(velocity) => gradient.clone() + velocity.mul_scalar(self.momentum),
            None => gradient.clone(),
        };
        let direction = match self.is_nesterov {
            true => velocity.clone().mul_scalar(self.momentum) + gradient,
            false => velocity.clone(),
        };
        (parameter - direction.mul_scalar(learning_rate), Some(velocity))
    }
}

impl Optimizer for Sgd {
    type State<const D: usize> = SgdState<D>;

    fn step<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<SgdState<D>>,
    ) -> (Tensor<D>, Option<SgdState<D>>) {
        let velocity = state.and_then(|state| state.velocity);
        let (parameter, velocity) = self.update(learning_rate, parameter, gradient, velocity);
        (parameter, Some(SgdState { velocity }))
    }

    fn to_device<const D: usize>(state: SgdState<D>, device: &Device) -> SgdState<D> {
        SgdState { velocity: state.velocity.map(|velocity| velocity.to_device(device)) }
    }
}

impl Sgd {
    /// A step by the kernel where it takes the tensors, else by burn's operations.
    fn update<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        velocity: Option<Tensor<D>>,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        #[cfg(feature = "flex")]
        if !crate::plain::is_default()
            && [&parameter, &gradient].into_iter().chain(&velocity).all(crate::ops::runs_kernels)
        {
            return self.fused(learning_rate, parameter, gradient, velocity);
        }
        self.plain(learning_rate, parameter, gradient, velocity)
    }

    #[cfg(feature = "flex")]
    fn fused<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        velocity: Option<Tensor<D>>,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        use crate::kernels::sgd::{Momentum, Update};

        let update = Update { penalty: self.penalty(), rate: learning_rate as f32 };
        if self.momentum == 0.0 {
            return (crate::ops::sgd(parameter, gradient, update), None);
        }
        let momentum = Momentum {
            is_first: velocity.is_none(),
            factor: self.momentum,
            is_nesterov: self.is_nesterov,
        };
        let velocity = velocity.unwrap_or_else(|| gradient.zeros_like());
        let [parameter, velocity] =
            crate::ops::sgd_with_momentum(parameter, gradient, velocity, update, momentum);
        (parameter, Some(velocity))
    }
}
