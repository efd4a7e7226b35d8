//! The keys of `quantize`: how a trained network is quantized.

use serde::{Deserialize, Serialize};

use super::error::ConfigError;
use super::key::{Edit, Key, Keys};
use super::settings::Settings;

/// How the range of an activation follows from calibration samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CalibrationMethod {
    /// From the minimum to the maximum.
    Minmax,
    /// 99.99 % of all numbers.
    Percentile,
    /// The smallest loss of information.
    Entropy,
    /// The least squared error.
    Mse,
}

impl CalibrationMethod {
    /// All methods.
    pub const ALL: [Self; 4] = [Self::Minmax, Self::Percentile, Self::Entropy, Self::Mse];

    /// Its name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minmax => "minmax",
            Self::Percentile => "percentile",
            Self::Entropy => "entropy",
            Self::Mse => "mse",
        }
    }
}

/// How weights are rounded to codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoundingMethod {
    /// To the nearest code.
    Nearest,
    /// With the error of each weight compensated by those that follow.
    Gptq,
    /// Up or down, by gradient descent on the error of the layer's results.
    Adaround,
}

/// The bits that weights can have.
const BITS: [u8; 5] = [8, 4, 3, 2, 1];

const CALIBRATION: Key<u32> =
    Key::new("quantize.calibration", "number of training samples for calibration")
        .depends("512")
        .edit(Edit::Free)
        .check("at least 1", |samples| *samples >= 1);
const METHOD: Key<CalibrationMethod> = Key::new(
    "quantize.method",
    "the calibration method: `minmax`, `percentile`, `entropy` or `mse`, the least squared error",
)
.depends("`mse`")
.edit(Edit::Free);
const KEEP: Key<Vec<String>> =
    Key::new("quantize.keep", "layers to keep in f32, by their names in quant.json")
        .depends("`[]`")
        .edit(Edit::Free);
const ALL_INT8: Key<bool> =
    Key::new("quantize.all_int8", "also quantizes the layers after global pooling")
        .depends("false")
        .edit(Edit::Free);
const SEPARATE_SUMS: Key<bool> = Key::new(
    "quantize.separate_sums",
    "rounds both operands of a residual sum to int8, which is faster in other runtimes with `model.onnx`, but less accurate",
)
.depends("false")
.edit(Edit::Free);
const WEIGHTS_ONLY: Key<bool> = Key::new(
    "quantize.weights_only",
    "quantizes weights alone: activations stay in f32, and so does the speed of most layers",
)
.depends("false")
.edit(Edit::Free);
const WEIGHT_BITS: Key<u8> = Key::new(
    "quantize.bits",
    "bits of weights: 8, 4, 3, 2 or 1; activations have 8; not with `quantize.budget` or `quantize.max_drop`",
)
.depends("8")
.edit(Edit::Free)
.check("8, 4, 3, 2 or 1", |bits| BITS.contains(bits));
const ASYMMETRIC: Key<bool> =
    Key::new("quantize.asymmetric", "gives weights of fewer than 8 bits a zero point")
        .depends("false")
        .edit(Edit::Free);
const GROUP: Key<u32> = Key::new(
    "quantize.group",
    "consecutive weights of fewer than 8 bits that have a scale of their own",
)
.edit(Edit::Free)
.check("at least 1", |group| *group >= 1);
const ROUNDING: Key<RoundingMethod> =
    Key::new("quantize.rounding", "how weights are rounded: `nearest`, `gptq` or `adaround`")
        .depends("`nearest`")
        .edit(Edit::Free);
const BIAS_CORRECTION: Key<bool> =
    Key::new("quantize.bias_correction", "corrects the mean of each channel's results by its bias")
        .depends("false")
        .edit(Edit::Free);
const EQUALIZE: Key<bool> = Key::new(
    "quantize.equalize",
    "first makes the ranges of each layer's channels alike, which changes no output of the calibration samples in f32",
)
.depends("false")
.edit(Edit::Free);
const BUDGET: Key<f64> = Key::new(
    "quantize.budget",
    "chooses 8, 4, 3 or 2 bits or f32 for each layer so that parameters have at most this fraction of the bytes of f32, with the least noise",
)
.edit(Edit::Free)
.check("above 0 and at most 1", |budget| *budget > 0.0 && *budget <= 1.0);
const MAX_DROP: Key<f64> = Key::new(
    "quantize.max_drop",
    "chooses 8, 4, 3 or 2 bits or f32 for each layer so that the score on the calibration samples falls by at most so many points, with the fewest bytes; not with `quantize.budget`",
)
.edit(Edit::Free)
.check("a finite number of at least 0", |points| points.is_finite() && *points >= 0.0);

/// The keys of `quantize`.
pub(super) const KEYS: Keys = &[
    &CALIBRATION,
    &METHOD,
    &KEEP,
    &ALL_INT8,
    &SEPARATE_SUMS,
    &WEIGHTS_ONLY,
    &WEIGHT_BITS,
    &ASYMMETRIC,
    &GROUP,
    &ROUNDING,
    &BIAS_CORRECTION,
    &EQUALIZE,
    &BUDGET,
    &MAX_DROP,
];

/// How the run's network is quantized, as far as the configuration says; each field is the key of
/// the same name.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "each field is documented by the key of its name")]
pub struct QuantizePlan {
    pub calibration: Option<u32>,
    pub method: Option<CalibrationMethod>,
    pub keep: Option<Vec<String>>,
    pub all_int8: Option<bool>,
    pub separate_sums: Option<bool>,
    pub weights_only: Option<bool>,
    pub bits: Option<u8>,
    pub asymmetric: Option<bool>,
    pub group: Option<u32>,
    pub rounding: Option<RoundingMethod>,
    pub bias_correction: Option<bool>,
    pub equalize: Option<bool>,
    pub budget: Option<f64>,
    pub max_drop: Option<f64>,
}

impl QuantizePlan {
    /// Reads every key; `refused` is the reason why the models are not quantized.
    pub(super) fn read(
        settings: &Settings,
        refused: Option<&'static str>,
    ) -> Result<Self, ConfigError> {
        let plan = Self {
            calibration: settings.option(&CALIBRATION)?,
            method: settings.option(&METHOD)?,
            keep: settings.option(&KEEP)?,
            all_int8: settings.option(&ALL_INT8)?,
            separate_sums: settings.option(&SEPARATE_SUMS)?,
            weights_only: settings.option(&WEIGHTS_ONLY)?,
            bits: settings.option(&WEIGHT_BITS)?,
            asymmetric: settings.option(&ASYMMETRIC)?,
            group: settings.option(&GROUP)?,
            rounding: settings.option(&ROUNDING)?,
            bias_correction: settings.option(&BIAS_CORRECTION)?,
            equalize: settings.option(&EQUALIZE)?,
            budget: settings.option(&BUDGET)?,
            max_drop: settings.option(&MAX_DROP)?,
        };
        if let Some(reason) = refused.filter(|_| plan != Self::default()) {
            return Err(settings.refuse_given("quantize", &format!("left out: {reason}")));
        }
        if plan.budget.is_some() && plan.max_drop.is_some() {
            let expected = "left out with `quantize.budget`";
            return Err(settings.refuse_given("quantize.max_drop", expected));
        }
        if plan.bits.is_some() && (plan.budget.is_some() || plan.max_drop.is_some()) {
            let expected = "left out with a budget or a drop, which choose the bits";
            return Err(settings.refuse_given("quantize.bits", expected));
        }
        Ok(plan)
    }
}
