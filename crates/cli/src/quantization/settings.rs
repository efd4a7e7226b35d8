//! The arguments of a quantization.

use clap::{Args, ValueEnum};
use updraft_quant::Calibration;
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
}

impl QuantizeSettings {
    /// Returns an error for a plan whose models cannot be quantized with these settings.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), RunError> {
        let quantizer = plan.quantizer()?;
        self.outliers.map_or(Ok(()), |_| quantizer.check_outliers())
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
