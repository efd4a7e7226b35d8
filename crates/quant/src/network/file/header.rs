//! The JSON header of a model's file.

use serde::{Deserialize, Serialize};

use crate::clip::Clip;
use crate::network::exact::Exact;
use crate::network::graph::Port;
use crate::network::plan::Reason;
use crate::network::quantization::Calibrated;
use crate::network::speed::SpeedPlan;
use crate::scheme::{ActivationScheme, SchemeError};
use crate::weights::WeightFormat;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) calibrated: Calibrated,
    pub(super) joins_sums: bool,
    /// The layers that are faster in f32, by class of processors.
    pub(super) speed_plans: Vec<SpeedPlan>,
    pub(super) inputs: Vec<Input>,
    pub(super) layers: Vec<Layer>,
    pub(super) outputs: Vec<Output>,
}

/// The version; all other fields are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Version {
    pub(super) version: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pub(super) port: Port,
    pub(super) scheme: Scheme,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layer {
    pub(super) name: String,
    /// The operation, and its settings.
    pub(super) kind: String,
    pub(super) settings: serde_json::Value,
    /// The tensors that it reads: the inputs come first, then the output of each layer.
    pub(super) inputs: Vec<usize>,
    pub(super) scheme: Scheme,
    /// The limits of its output.
    pub(super) clip: Clip,
    pub(super) is_zero: bool,
    /// Why it runs in f32, if it does.
    pub(super) in_f32: Option<Reason>,
    /// How its weights are packed, if they have fewer than eight bits.
    pub(super) low_bits: Option<LowBits>,
}

/// Packed weights.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LowBits {
    pub(super) format: WeightFormat,
    /// Weights of a channel.
    pub(super) each: usize,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    pub(super) port: Port,
    pub(super) tensor: usize,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scheme {
    scale: Exact<f32>,
    zero_point: u8,
}

impl From<ActivationScheme> for Scheme {
    fn from(scheme: ActivationScheme) -> Self {
        Self { scale: Exact(scheme.scale()), zero_point: scheme.zero_point() }
    }
}

impl TryFrom<Scheme> for ActivationScheme {
    type Error = SchemeError;

    fn try_from(scheme: Scheme) -> Result<Self, SchemeError> {
        Self::try_new(scheme.scale.0, scheme.zero_point)
    }
}
