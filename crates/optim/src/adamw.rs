//! Adam with decoupled weight decay.

use burn::optim::{AdamWConfig, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};

use crate::adamw_plain;
use crate::adamw_state::AdamWState;
use crate::count::Count;
use crate::scope::Scope;

/// Adam with decoupled weight decay, in one pass over each parameter.
///
/// With the gradient `g` of step `t`:
///
/// ```text
/// m ← β₁·m + (1 − β₁)·g
/// v ← β₂·v + (1 − β₂)·g²
/// p ← (1 − rate·decay)·p − rate · (m/(1 − β₁ᵗ)) / (√(v/(1 − β₂ᵗ)) + ε)
/// ```
///
/// Parameters in f32 are updated by our kernels, on burn's `flex` backend with the feature `flex`,
/// and on GPUs with the feature of their backend, in one launch for each parameter;
/// every other parameter by the operations of burn's own [`AdamW`](burn::optim::AdamW).
/// [`plain_reason`](crate::plain_reason) returns why. On `flex` the bits of both are the same, on
/// GPUs they differ by rounding. The state in a record is the same.
///
/// Under [`controlled`](crate::controlled) the device decides about the update.
///
/// # Source
/// Loshchilov and Hutter 2019, arXiv:1711.05101; Kingma and Ba 2015, arXiv:1412.6980.
///
/// # Example
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::{GradientsParams, ModuleOptimizer};
/// use burn::tensor::{Device, Tensor};
/// use updraft_optim::AdamW;
///
/// let device = Device::flex().autodiff();
/// let model = LinearConfig::new(2, 3).init(&device);
/// let mut optimizer = ModuleOptimizer::from(AdamW::new().with_weight_decay(0.01));
/// let loss = model.forward(Tensor::<2>::ones([4, 2], &device)).sum();
/// let gradients = GradientsParams::from_grads(loss.backward(), &model);
/// let model = optimizer.step(1e-3, model, gradients);
/// # let _ = model;
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamW {
    pub(crate) beta_1: f32,
    pub(crate) beta_2: f32,
    pub(crate) epsilon: f32,
    weight_decay: f32,
}

impl Default for AdamW {
    fn default() -> Self {
        Self::new()
    }
}

impl AdamW {
    /// The values of the paper of Adam, `β₁` 0.9, `β₂` 0.999 and `ε` 1e-8, without weight decay.
    #[must_use]
    pub const fn new() -> Self {
        Self { beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }

    /// The decay rates of the means of the gradients and of their squares.
    ///
    /// # Panics
    /// If one of them is not in `[0, 1)`.
    #[must_use]
    pub const fn with_betas(self, [beta_1, beta_2]: [f32; 2]) -> Self {
        assert!(beta_1 >= 0.0 && beta_1 < 1.0, "`beta_1` must be at least 0 and below 1");
        assert!(beta_2 >= 0.0 && beta_2 < 1.0, "`beta_2` must be at least 0 and below 1");
        Self { beta_1, beta_2, ..self }
    }

    /// The summand of the denominator.
    ///
    /// # Panics
    /// If it is not above 0 and finite.
    #[must_use]
    pub const fn with_epsilon(self, epsilon: f32) -> Self {
        assert!(epsilon > 0.0 && epsilon.is_finite(), "`epsilon` must be above 0 and finite");
        Self { epsilon, ..self }
    }

    /// The decoupled weight decay, which is multiplied by the learning rate.
    ///
    /// # Panics
    /// If it is not at least 0 and finite.
    #[must_use]
    pub const fn with_weight_decay(self, weight_decay: f32) -> Self {
        let is_decay = weight_decay >= 0.0 && weight_decay.is_finite();
        assert!(is_decay, "`weight_decay` must be at least 0 and finite");
        Self { weight_decay, ..self }
    }

    /// The factor that weight decay leaves of a parameter.
    pub(crate) fn kept(&self, learning_rate: LearningRate) -> f64 {
        1.0 - learning_rate * f64::from(self.weight_decay)
    }

    /// burn's optimizer of these values.
    fn plain(&self) -> burn::optim::AdamW {
        AdamWConfig::new()
            .with_beta_1(self.beta_1)
            .with_beta_2(self.beta_2)
            .with_epsilon(self.epsilon)
            .with_weight_decay(self.weight_decay)
            .build()
    }
}

impl Optimizer for AdamW {
    type State<const D: usize> = AdamWState<D>;

    fn step<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, Option<AdamWState<D>>) {
        if let Some(scope) = Scope::current() {
            let (parameter, state) =
                self.controlled(&scope, learning_rate, parameter, gradient, state);
            return (parameter, Some(state));
        }
        #[cfg(any(feature = "flex", feature = "cube"))]
        if takes(&parameter, &gradient, state.as_ref()) {
            let (parameter, state) = self.fused(learning_rate, parameter, gradient, state);
            return (parameter, Some(state));
        }
        let state = state.map(AdamWState::into_burns);
        let (parameter, state) = self.plain().step(learning_rate, parameter, gradient, state);
        (parameter, state.map(AdamWState::from_burns))
    }

    fn to_device<const D: usize>(state: AdamWState<D>, device: &Device) -> AdamWState<D> {
        state.moved_to(device)
    }
}

impl AdamW {
    /// A step about which the device decides.
    fn controlled<const D: usize>(
        &self,
        scope: &Scope,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, AdamWState<D>) {
        let count = state.as_ref().map_or(Count::Known(0), |state| state.count.clone());
        let followed = scope.follow(&count);
        #[cfg(feature = "cube")]
        if crate::control::takes_control(&parameter.device())
            && takes(&parameter, &gradient, state.as_ref())
        {
            let AdamWState { moment_1, moment_2, .. } =
                state.unwrap_or_else(|| AdamWState::new(&gradient));
            let beta = [self.beta_1, self.beta_2];
            let control = scope.adamw_control(&followed, beta);
            // The kernel reads the corrections of the control.
            let update = self.update(learning_rate, false, [1.0, 1.0]);
            let moments = [moment_1, moment_2];
            let (parameter, [moment_1, moment_2]) =
                crate::ops::adamw_controlled(parameter, gradient, moments, control, update);
            return (
                parameter,
                AdamWState { moment_1, moment_2, count: Count::OnDevice(followed) },
            );
        }
        adamw_plain::step(self, scope, &followed, learning_rate, parameter, gradient, state)
    }
}

/// Whether the kernels take these tensors.
#[cfg(any(feature = "flex", feature = "cube"))]
fn takes<const D: usize>(
    parameter: &Tensor<D>,
    gradient: &Tensor<D>,
    state: Option<&AdamWState<D>>,
) -> bool {
    use burn::tensor::DType;

    let moments = state.into_iter().flat_map(|state| [&state.moment_1, &state.moment_2]);
    crate::plain_reason(&parameter.device(), parameter.dtype()).is_none()
        && !parameter.is_autodiff()
        && moments.chain([gradient]).all(|tensor| tensor.dtype() == DType::F32)
}

#[cfg(any(feature = "flex", feature = "cube"))]
impl AdamW {
    fn update(
        &self,
        learning_rate: LearningRate,
        is_first: bool,
        corrections: [f32; 2],
    ) -> crate::kernels::numbers::AdamWUpdate {
        crate::kernels::numbers::AdamWUpdate {
            is_first,
            beta: [self.beta_1, self.beta_2],
            corrections,
            epsilon: self.epsilon,
            kept: self.kept(learning_rate) as f32,
            rate: learning_rate as f32,
        }
    }

    fn fused<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, AdamWState<D>) {
        let is_first = state.is_none();
        let AdamWState { moment_1, moment_2, count } =
            state.unwrap_or_else(|| AdamWState::new(&gradient));
        let time = count.read() + 1;
        // As burn's: a power in f32, of an exponent in i32.
        let left = |beta: f32| 1.0 - beta.powi(i32::try_from(time).unwrap_or(i32::MAX));
        let corrections = [left(self.beta_1), left(self.beta_2)];
        let update = self.update(learning_rate, is_first, corrections);
        let (parameter, [moment_1, moment_2]) =
            crate::ops::adamw(parameter, gradient, [moment_1, moment_2], update);
        (parameter, AdamWState { moment_1, moment_2, count: Count::Known(time) })
    }
}
