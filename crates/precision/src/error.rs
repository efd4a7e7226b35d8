//! What precision can refuse.

use burn::tensor::DType;

/// Why a policy cannot be used, or a gradient not trusted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PrecisionError {
    /// The text is no policy.
    #[error(
        "`{text}` is no precision policy; expected `f32`, `bf16-mixed`, `f16-mixed`, `bf16`, or \
         dtypes such as `p=f32,c=bf16,o=f32`"
    )]
    Unknown {
        /// What was given.
        text: String,
    },
    /// A policy that needs a loss scale, which this version does not have.
    #[error(
        "policy `{policy}` computes gradients in f16, which underflow without a loss scale, and \
         there is none yet; use `bf16-mixed`"
    )]
    NeedsLossScale {
        /// The policy's text.
        policy: String,
    },
    /// Training keeps its parameters in another dtype than `f32`.
    #[error(
        "policy `{policy}` stores parameters in {param:?}; training keeps f32 masters, because \
         small updates vanish in narrower ones"
    )]
    NarrowMasters {
        /// The policy's text.
        policy: String,
        /// The dtype asked for.
        param: DType,
    },
    /// The loss would be computed in a narrow dtype.
    #[error("policy `{policy}` leaves outputs in {output:?}; losses and softmax need f32")]
    NarrowOutput {
        /// The policy's text.
        policy: String,
        /// The dtype asked for.
        output: DType,
    },
    /// A gradient holds NaN or infinity.
    #[error("the gradient of `{path}` is not finite")]
    NonFiniteGradient {
        /// The parameter's path in the module.
        path: String,
    },
    /// Every gradient is finite, but the sum of their squares is not.
    #[error("the gradients are finite, but their global norm exceeds what f32 holds")]
    NormOverflow,
    /// Two results of different lengths cannot be compared.
    #[error("cannot compare {expected} values with {found}")]
    Length {
        /// Values of the reference.
        expected: usize,
        /// Values of the other.
        found: usize,
    },
}
