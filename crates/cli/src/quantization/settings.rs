//! What the command line may say of a quantization.

use clap::{Args, ValueEnum};
use updraft_quant::Calibration;
use updraft_run::{Plan, RunError};

/// How a network is put into eight bits.
#[derive(Debug, Clone, Args)]
pub(crate) struct QuantizeSettings {
    /// How many training samples the ranges are found on
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) calibration: u32,
    /// How ranges follow from what is seen
    #[arg(long, default_value = "mse")]
    pub(super) method: Method,
    /// Also test the other methods, and print all beside each other
    #[arg(long)]
    pub(super) every_method: bool,
    /// A layer to keep in f32, by its name in quant.json (repeatable)
    #[arg(long = "keep", value_name = "LAYER")]
    pub(super) keep: Vec<String>,
    /// Put into eight bits also the little work at the end, on means over whole inputs, that stays
    /// in f32 otherwise
    #[arg(long)]
    pub(super) all_int8: bool,
    /// Round both summands of a residual sum to eight bits, as integer kernels of other runtimes
    /// want them in `model.onnx`; more is lost
    #[arg(long)]
    pub(super) separate_sums: bool,
    /// First make one channel of each block stand out by this factor; the network computes the
    /// same, and is harder to put into eight bits (networks that have such blocks)
    #[arg(long, value_name = "FACTOR", value_parser = factor, allow_hyphen_values = true)]
    pub(super) outliers: Option<f32>,
}

impl QuantizeSettings {
    /// Refuses a plan whose models cannot be quantized so.
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

/// How ranges follow from what is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Method {
    /// From the least number to the greatest
    Minmax,
    /// 99.99 % of all numbers
    Percentile,
    /// The least loss of information
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
