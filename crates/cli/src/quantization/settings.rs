//! The arguments of a quantization.

use clap::{Args, ValueEnum};
use updraft_quant::{Calibration, Quantization, Rounding, WeightFormat};
use updraft_run::{Plan, RunError};

/// The settings of a quantization.
#[derive(Debug, Clone, Args)]
pub(crate) struct QuantizeSettings {
    /// Number of training samples for calibration
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) calibration: u32,
    /// The calibration method
    #[arg(long, default_value = "mse")]
    pub(super) method: Method,
    /// Also test the other calibration methods, and compare all
    #[arg(long)]
    pub(super) every_method: bool,
    /// A layer to keep in f32, by its name in quant.json (repeatable)
    #[arg(long = "keep", value_name = "LAYER")]
    pub(super) keep: Vec<String>,
    /// Also quantize the layers after global pooling, which otherwise stay in f32
    #[arg(long)]
    pub(super) all_int8: bool,
    /// Round both operands of a residual sum to int8, which is faster in other runtimes with
    /// `model.onnx`, but less accurate
    #[arg(long)]
    pub(super) separate_sums: bool,
    /// First add outlier channels: scale one channel of each block by this factor; the outputs do
    /// not change, but the network is harder to quantize (separable networks only)
    #[arg(long, value_name = "FACTOR", value_parser = factor, allow_hyphen_values = true)]
    pub(super) outliers: Option<f32>,
    /// Bits of weights: 8, 4, 3, 2 or 1; activations have 8
    #[arg(long, value_name = "N", default_value = "8", value_parser = bits)]
    #[arg(conflicts_with_all = ["budget", "max_drop"])]
    pub(super) bits: WeightFormat,
    /// Give weights of fewer than 8 bits a zero point
    #[arg(long)]
    pub(super) asymmetric: bool,
    /// Give each N consecutive weights of fewer than 8 bits a scale of their own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) group: Option<u32>,
    /// The bits of one layer's weights, by its name in quant.json (repeatable)
    #[arg(long = "layer", value_name = "LAYER=N", value_parser = layer)]
    #[arg(conflicts_with_all = ["budget", "max_drop"])]
    pub(super) layers: Vec<(String, WeightFormat)>,
    /// How weights are rounded
    #[arg(long, default_value = "nearest")]
    pub(super) rounding: Rounded,
    /// Correct the mean of each channel's results by its bias
    #[arg(long)]
    pub(super) bias_correction: bool,
    /// First make the ranges of each layer's channels alike, which changes no output in f32
    #[arg(long)]
    pub(super) equalize: bool,
    /// Quantize each layer alone with 8, 4, 3 and 2 bits and print how much the outputs change
    #[arg(long)]
    pub(super) sensitivity: bool,
    /// Choose bits and layers in f32 so that parameters have at most this fraction of the bytes of
    /// f32, with the least noise
    #[arg(long, value_name = "FRACTION", value_parser = fraction, allow_hyphen_values = true)]
    pub(super) budget: Option<f64>,
    /// Choose bits and layers in f32 so that the score on the calibration samples falls by at most
    /// so many points, with the fewest bytes
    #[arg(long, value_name = "POINTS", value_parser = points, allow_hyphen_values = true)]
    #[arg(conflicts_with = "budget")]
    pub(super) max_drop: Option<f64>,
}

impl QuantizeSettings {
    /// Returns an error for a plan whose models cannot be quantized with these settings.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), RunError> {
        let quantizer = plan.quantizer()?;
        self.outliers.map_or(Ok(()), |_| quantizer.check_outliers())
    }

    /// The format of weights of so many bits.
    fn format(&self, format: WeightFormat) -> WeightFormat {
        let is_low = format.bits() < 8;
        let format = match self.group.filter(|_| is_low) {
            Some(group) => format.try_groups_of(group).expect("a group of fewer than eight bits"),
            None => format,
        };
        match self.asymmetric {
            // One bit and eight bits have no zero point.
            true => format.try_asymmetric().unwrap_or(format),
            false => format,
        }
    }

    /// The formats that are measured layer by layer.
    pub(super) fn formats(&self) -> Vec<WeightFormat> {
        let supported = |bits| WeightFormat::try_new(bits).expect("bits of a format");
        [8, 4, 3, 2].map(|bits| self.format(supported(bits))).to_vec()
    }

    /// Whether layers are measured alone.
    pub(super) const fn measures_layers(&self) -> bool {
        self.sensitivity || self.budget.is_some() || self.max_drop.is_some()
    }

    /// Whether bits are chosen.
    pub(super) const fn chooses_bits(&self) -> bool {
        self.budget.is_some() || self.max_drop.is_some()
    }

    /// The settings of a quantization by a method.
    pub(super) fn quantization(&self, method: Method, set_hash: &str) -> Quantization {
        let mut by = Quantization::new(method.into())
            .keep(self.keep.iter().cloned())
            .weights(self.format(self.bits))
            .rounding(self.rounding.into())
            .set_hash(set_hash);
        for (layer, format) in &self.layers {
            by = by.layer(layer, self.format(*format));
        }
        if !self.all_int8 {
            by = by.float_tail();
        }
        if self.separate_sums {
            by = by.separate_sums();
        }
        if self.bias_correction {
            by = by.bias_correction();
        }
        by
    }
}

fn bits(text: &str) -> Result<WeightFormat, String> {
    let bits = text.parse::<u8>().map_err(|_| "expected 8, 4, 3, 2 or 1".to_owned())?;
    WeightFormat::try_new(bits).map_err(|error| error.to_string())
}

fn layer(text: &str) -> Result<(String, WeightFormat), String> {
    match text.rsplit_once('=') {
        Some((name, number)) if !name.is_empty() => Ok((name.to_owned(), bits(number)?)),
        _ => Err("expected a layer and its bits, such as stem.conv=4".to_owned()),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(fraction) if fraction > 0.0 && fraction <= 1.0 => Ok(fraction),
        _ => Err("expected a fraction above 0 and at most 1, such as 0.25".to_owned()),
    }
}

fn points(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(points) if points.is_finite() && points >= 0.0 => Ok(points),
        _ => Err("expected a number of points of at least 0, such as 0.5".to_owned()),
    }
}

/// How weights are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Rounded {
    /// To the nearest code
    Nearest,
    /// With the error of each weight compensated by those that follow
    Gptq,
    /// Up or down, by gradient descent on the error of the layer's results
    Adaround,
}

impl From<Rounded> for Rounding {
    fn from(rounded: Rounded) -> Self {
        match rounded {
            Rounded::Nearest => Self::Nearest,
            Rounded::Gptq => Self::Gptq,
            Rounded::Adaround => Self::AdaRound,
        }
    }
}

fn factor(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(factor),
        _ => Err("expected a positive number such as 64".to_owned()),
    }
}

/// The calibration method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Method {
    /// From the minimum to the maximum
    Minmax,
    /// 99.99 % of all numbers
    Percentile,
    /// The smallest loss of information (entropy)
    Entropy,
    /// The least squared error
    Mse,
}

impl Method {
    /// Its name on the command line.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value().expect("no method is hidden");
        value.get_name().to_owned()
    }
}

impl From<Method> for Calibration {
    fn from(method: Method) -> Self {
        match method {
            Method::Minmax => Self::MinMax,
            Method::Percentile => Self::Percentile(0.9999),
            Method::Entropy => Self::Entropy,
            Method::Mse => Self::MeanSquaredError,
        }
    }
}
