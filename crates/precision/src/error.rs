//! Errors of mixed precision.

use burn::tensor::DType;

/// Why a policy or a gradient cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PrecisionError {
    /// The text is no policy.
    #[error(
        "`{text}` is not a precision policy; expected `f32`, `bf16-products`, `bf16-mixed`, `f16-mixed`, \
         `bf16`, or dtypes such as `p=f32,c=bf16,o=f32`"
    )]
    Unknown {
        /// The given value.
        text: String,
    },
    /// The policy needs a loss scale, and there is none.
    #[error(
        "policy `{policy}` computes gradients in f16, which underflow without a loss scale; train \
         with one, or use `bf16-mixed`"
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
    /// A gradient has NaN or infinity.
    #[error("the gradient of `{path}` is not finite")]
    NonFiniteGradient {
        /// The parameter's path in the module.
        path: String,
    },
    /// Every gradient is finite, but the sum of their squares is not.
    #[error("the gradients are finite, but their global norm exceeds the range of f32")]
    NormOverflow,
    /// A setting of the loss scale is out of its range.
    #[error("the loss scale's `{name}` is {value}; expected {expected}")]
    LossScaleSetting {
        /// The setting's name.
        name: &'static str,
        /// The given value.
        value: f64,
        /// The allowed values.
        expected: &'static str,
    },
    /// The gradients overflow at the lowest allowed loss scale.
    #[error(
        "{skips} steps in a row were skipped, and the gradient of `{path}` is still not finite at \
         a loss scale of {scale}; lower the learning rate, or use `bf16-mixed`"
    )]
    TooManySkips {
        /// Steps skipped in a row.
        skips: u64,
        /// The first bad gradient's path in the module.
        path: String,
        /// The loss scale of the last of them.
        scale: f64,
    },
    /// One of burn's normalizations would get two dtypes.
    #[error(
        "`{path}` is a {container}, whose parameters stay wide while policy `{policy}` computes \
         in {compute:?}; cast its input and its output in the model and confirm it, or use a \
         layer that does"
    )]
    UncastNorm {
        /// The policy's text.
        policy: String,
        /// The layer's path in the module.
        path: String,
        /// The layer's type.
        container: String,
        /// The dtype of its input.
        compute: DType,
    },
    /// The device cannot compute in a dtype of the policy.
    #[error("policy `{policy}` needs {dtype:?}, which {device} does not compute in; use `f32`")]
    UnsupportedDtype {
        /// The policy's text.
        policy: String,
        /// The dtype.
        dtype: DType,
        /// burn's own description of the device.
        device: String,
    },
    /// No kernels on the device multiply bf16 faster than f32.
    #[error(
        "policy `{policy}` needs the backend flex on a processor that multiplies bf16 faster than \
         f32, which are those with AMX for bf16, under Linux, and AMD's with AVX512_BF16; {device} \
         is not one: use `f32`, or `bf16-mixed` on a GPU that computes in bf16"
    )]
    NoBf16Unit {
        /// The policy's text.
        policy: String,
        /// burn's own description of the device.
        device: String,
    },
    /// The values are not a whole number of image planes, or the planes are too small.
    #[error(
        "{values} values are not one or more planes of {height} x {width}, each side at least 11"
    )]
    Planes {
        /// How many values there are.
        values: usize,
        /// Rows of a plane.
        height: usize,
        /// Columns of a plane.
        width: usize,
    },
    /// Two results of different lengths cannot be compared.
    #[error("cannot compare {expected} values with {found}")]
    Length {
        /// Values of the reference.
        expected: usize,
        /// Values of the other.
        found: usize,
    },
}

impl PrecisionError {
    /// The same error with another name of the device, such as `wgpu:0`, for burn's description.
    #[must_use]
    pub fn on(mut self, name: &str) -> Self {
        if let Self::UnsupportedDtype { device, .. } | Self::NoBf16Unit { device, .. } = &mut self {
            name.clone_into(device);
        }
        self
    }
}
