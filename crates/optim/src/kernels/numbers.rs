//! The numbers of a step.

/// The numbers of a step of `AdamW`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdamWUpdate {
    /// Whether there are no moments yet. On the CPU their contents are not read then; on GPUs they
    /// are zeros.
    #[cfg_attr(not(feature = "flex"), allow(dead_code, reason = "the kernel on slices reads it"))]
    pub(crate) is_first: bool,
    /// `β₁` and `β₂`.
    pub(crate) beta: [f32; 2],
    /// `1 − β₁ᵗ` and `1 − β₂ᵗ`; under a control they are on the device, and these are not read.
    pub(crate) corrections: [f32; 2],
    /// `ε`.
    pub(crate) epsilon: f32,
    /// The factor that weight decay leaves of a parameter.
    pub(crate) kept: f32,
    /// The learning rate.
    pub(crate) rate: f32,
}

/// The numbers of a step of gradient descent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SgdUpdate {
    /// The factor of the parameter that is added to its gradient; `None` adds nothing.
    pub(crate) penalty: Option<f32>,
    /// The learning rate.
    pub(crate) rate: f32,
}

/// How a velocity is updated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Momentum {
    /// Whether there is no velocity yet. On the CPU its contents are not read then; on GPUs they
    /// are zeros.
    #[cfg_attr(not(feature = "flex"), allow(dead_code, reason = "the kernel on slices reads it"))]
    pub(crate) is_first: bool,
    /// The factor of the velocity before.
    pub(crate) factor: f32,
    /// Whether the parameter moves by the velocity of one step later.
    pub(crate) is_nesterov: bool,
}
