//! Adam with decoupled weight decay.

use burn::optim::{AdamWConfig, AdamWState, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};

/// Adam with decoupled weight decay, in one pass over each parameter on the CPU.
///
/// With the gradient `g` of step `t`:
///
/// ```text
/// m ← β₁·m + (1 − β₁)·g
/// v ← β₂·v + (1 − β₂)·g²
/// p ← (1 − rate·decay)·p − rate · (m/(1 − β₁ᵗ)) / (√(v/(1 − β₂ᵗ)) + ε)
/// ```
///
/// Parameters in f32 on burn's `flex` backend are updated by our kernel, with the feature `flex`;
/// every other parameter by the operations of burn's own [`AdamW`](burn::optim::AdamW). The bits of
/// both are the same, and so is the state in a record.
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
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
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
        #[cfg(feature = "flex")]
        if !crate::plain::is_default() && takes(&parameter, &gradient, state.as_ref()) {
            return self.fused(learning_rate, parameter, gradient, state);
        }
        self.plain().step(learning_rate, parameter, gradient, state)
    }

    fn to_device<const D: usize>(state: AdamWState<D>, device: &Device) -> AdamWState<D> {
        <burn::optim::AdamW as Optimizer>::to_device(state, device)
    }
}

/// Whether the kernel takes these tensors.
#[cfg(feature = "flex")]
fn takes<const D: usize>(
    parameter: &Tensor<D>,
    gradient: &Tensor<D>,
    state: Option<&AdamWState<D>>,
) -> bool {
    let moments = state.map(|state| &state.momentum);
    let others = moments.iter().flat_map(|moments| [&moments.moment_1, &moments.moment_2]);
    moments.is_none_or(|moments| moments.max_moment_2.is_none())
        && [parameter, gradient].into_iter().chain(others).all(crate::ops::runs_kernels)
}

#[cfg(feature = "flex")]
impl AdamW {
    fn fused<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, Option<AdamWState<D>>) {
        use burn::optim::AdaptiveMomentumState;

        let is_first = state.is_none();
        let moments = state.map_or_else(
            || {
                let zeros = || gradient.zeros_like();
                AdaptiveMomentumState::new(0, zeros(), zeros())
            },
            |state| state.momentum,
        );
        let AdaptiveMomentumState { time, moment_1, moment_2, .. } = moments;
        let time = time + 1;
        // As burn's: a power in f32, of an exponent in i32.
        let left = |beta: f32| 1.0 - beta.powi(i32::try_from(time).unwrap_or(i32::MAX));
        let update = crate::kernels::adamw::Update {
            is_first,
            beta: [self.beta_1, self.beta_2],
            corrections: [left(self.beta_1), left(self.beta_2)],
            epsilon: self.epsilon,
            kept: (1.0 - learning_rate * f64::from(self.weight_decay)) as f32,
            rate: learning_rate as f32,
        };
        let (parameter, [moment_1, moment_2]) =
            crate::ops::adamw(parameter, gradient, [moment_1, moment_2], update);
        let momentum = AdaptiveMomentumState::new(time, moment_1, moment_2);
        (parameter, Some(AdamWState::new(momentum)))
    }
}
