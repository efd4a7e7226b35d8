//! Stochastic gradient descent with momentum.

use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

use crate::scope::Scope;
use crate::skipped::{spread, unless};

/// Stochastic gradient descent, in one pass over each parameter.
///
/// With the gradient `g`:
///
/// ```text
/// g ← g + decay·p
/// v ← momentum·v + g, and g in the first step
/// p ← p − rate · v, or with Nesterov momentum p − rate · (g + momentum·v)
/// ```
///
/// Parameters in f32 are updated by our kernels, on burn's `flex` backend with the feature `flex`,
/// and on GPUs with the feature of their backend, in one launch for each parameter;
/// every other parameter by burn's operations. [`plain_reason`](crate::plain_reason) returns why.
/// On `flex` the bits of both are those of burn's own [`Sgd`](burn::optim::Sgd) without dampening,
/// on GPUs they differ by rounding. The state in a record is the same.
///
/// Under [`controlled`](crate::controlled) the device decides about the update.
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
    /// A step by the kernels where they take the tensors, else by burn's operations.
    fn update<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        velocity: Option<Tensor<D>>,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        if let Some(scope) = Scope::current() {
            return self.controlled(&scope, learning_rate, parameter, gradient, velocity);
        }
        #[cfg(any(feature = "flex", feature = "cube"))]
        if takes(&parameter, &gradient, velocity.as_ref()) {
            return self.fused(learning_rate, parameter, gradient, velocity);
        }
        self.plain(learning_rate, parameter, gradient, velocity)
    }

    /// A step about which the device decides.
    fn controlled<const D: usize>(
        &self,
        scope: &Scope,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        velocity: Option<Tensor<D>>,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        #[cfg(feature = "cube")]
        if crate::control::takes_control(&parameter.device())
            && takes(&parameter, &gradient, velocity.as_ref())
        {
            return self.fused_controlled(scope, learning_rate, parameter, gradient, velocity);
        }
        let gradient = gradient.clone() * spread(scope.control.factor.clone(), &gradient);
        let before = velocity.clone();
        let (moved, velocity) = self.plain(learning_rate, parameter.clone(), gradient, velocity);
        let is_skipped = scope.is_skipped();
        let velocity = velocity.map(|velocity| {
            let before = before.unwrap_or_else(|| velocity.zeros_like());
            unless(velocity, before, &is_skipped)
        });
        (unless(moved, parameter, &is_skipped), velocity)
    }
}

/// Whether the kernels take these tensors.
#[cfg(any(feature = "flex", feature = "cube"))]
fn takes<const D: usize>(
    parameter: &Tensor<D>,
    gradient: &Tensor<D>,
    velocity: Option<&Tensor<D>>,
) -> bool {
    use burn::tensor::DType;

    crate::plain_reason(&parameter.device(), parameter.dtype()).is_none()
        && !parameter.is_autodiff()
        && velocity.into_iter().chain([gradient]).all(|tensor| tensor.dtype() == DType::F32)
}

#[cfg(any(feature = "flex", feature = "cube"))]
impl Sgd {
    fn fused<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        velocity: Option<Tensor<D>>,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        let update = self.numbers(learning_rate);
        if self.momentum == 0.0 {
            return (crate::ops::sgd(parameter, gradient, update), None);
        }
        let momentum = self.momentum_numbers(velocity.is_none());
        let velocity = velocity.unwrap_or_else(|| gradient.zeros_like());
        let [parameter, velocity] =
            crate::ops::sgd_with_momentum(parameter, gradient, velocity, update, momentum);
        (parameter, Some(velocity))
    }

    fn numbers(&self, learning_rate: LearningRate) -> crate::kernels::numbers::SgdUpdate {
        let (penalty, rate) = (self.penalty(), learning_rate as f32);
        crate::kernels::numbers::SgdUpdate { penalty, rate }
    }

    fn momentum_numbers(&self, is_first: bool) -> crate::kernels::numbers::Momentum {
        let Self { momentum: factor, is_nesterov, .. } = *self;
        crate::kernels::numbers::Momentum { is_first, factor, is_nesterov }
    }

    #[cfg(feature = "cube")]
    fn fused_controlled<const D: usize>(
        &self,
        scope: &Scope,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        velocity: Option<Tensor<D>>,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        let update = self.numbers(learning_rate);
        let control = [scope.control.factor.clone(), scope.control.is_applied.clone()];
        if self.momentum == 0.0 {
            let parameter = crate::ops::sgd_controlled(parameter, gradient, control, update);
            return (parameter, None);
        }
        let momentum = self.momentum_numbers(velocity.is_none());
        let velocity = velocity.unwrap_or_else(|| gradient.zeros_like());
        let [parameter, velocity] = crate::ops::sgd_with_momentum_controlled(
            parameter, gradient, velocity, control, update, momentum,
        );
        (parameter, Some(velocity))
    }
}
