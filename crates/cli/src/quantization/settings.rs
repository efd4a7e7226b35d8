//! The arguments of a quantization.

use clap::Args;
use serde::de::DeserializeOwned;
use updraft_quant::{Calibration, Quantization, QuantizeError, Rounding, WeightFormat};
use updraft_run::{CalibrationMethod, Plan, QuantizePlan, RoundingMethod, RunError};

/// The flags of a quantization, which take precedence over the keys of `quantize` in the plan.
#[derive(Debug, Clone, Args)]
pub(crate) struct QuantizeFlags {
    /// Number of training samples for calibration [default: 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    calibration: Option<u32>,
    /// The calibration method: minmax, percentile (99.99 % of all numbers), entropy, or mse, the
    /// least squared error [default: mse]
    #[arg(long, value_parser = named::<CalibrationMethod>)]
    method: Option<CalibrationMethod>,
    /// Also test the other calibration methods, and compare all
    #[arg(long)]
    every_method: bool,
    /// A layer to keep in f32, by its name in quant.json (repeatable)
    #[arg(long = "keep", value_name = "LAYER")]
    keep: Vec<String>,
    /// Also quantize the layers after global pooling, which otherwise stay in f32
    #[arg(long)]
    all_int8: bool,
    /// Round both operands of a residual sum to int8, which is faster in other runtimes with
    /// `model.onnx`, but less accurate
    #[arg(long)]
    separate_sums: bool,
    /// Measure each layer in int8 and in f32 on this processor, run it in the faster one, and print
    /// the times; without it, the shapes of the layers decide
    #[arg(long)]
    plan: bool,
    /// Run every layer in int8 that can, also where f32 is faster: all processors then return the
    /// same bits
    #[arg(long, conflicts_with = "plan")]
    only_int8: bool,
    /// Quantize weights alone: activations stay in f32, so that only the file is smaller, and
    /// linear layers of a megabyte and more with weights of 4 bits are faster for one sample
    #[arg(long, conflicts_with_all = ["plan", "only_int8", "every_method"])]
    weights_only: bool,
    /// First add outlier channels: scale one channel of each block by this factor; the outputs do
    /// not change, but the network is harder to quantize (separable networks only)
    #[arg(long, value_name = "FACTOR", value_parser = factor, allow_hyphen_values = true)]
    outliers: Option<f32>,
    /// Bits of weights: 8, 4, 3, 2 or 1; activations have 8 [default: 8, and 4 for layers that
    /// `train.quantization = "int4"` trained with 4]
    #[arg(long, value_name = "N", value_parser = bits)]
    #[arg(conflicts_with_all = ["budget", "max_drop"])]
    bits: Option<WeightFormat>,
    /// Give weights of fewer than 8 bits a zero point
    #[arg(long)]
    asymmetric: bool,
    /// Give each N consecutive weights of fewer than 8 bits a scale of their own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    group: Option<u32>,
    /// The bits of one layer's weights, by its name in quant.json (repeatable)
    #[arg(long = "layer", value_name = "LAYER=N", value_parser = layer)]
    #[arg(conflicts_with_all = ["budget", "max_drop"])]
    layers: Vec<(String, WeightFormat)>,
    /// How weights are rounded: nearest; gptq, with the error of each weight compensated by those
    /// that follow; or adaround, up or down by gradient descent on the error of the layer's
    /// results [default: nearest]
    #[arg(long, value_parser = named::<RoundingMethod>)]
    rounding: Option<RoundingMethod>,
    /// Correct the mean of each channel's results by its bias
    #[arg(long)]
    bias_correction: bool,
    /// First make the ranges of each layer's channels alike, which changes no output of the
    /// calibration samples in f32
    #[arg(long)]
    equalize: bool,
    /// Quantize each layer alone with 8, 4, 3 and 2 bits and print how much the outputs change
    #[arg(long)]
    sensitivity: bool,
    /// Choose 8, 4, 3 or 2 bits or f32 for each layer so that parameters have at most this fraction
    /// of the bytes of f32, with the least noise
    #[arg(long, value_name = "FRACTION", value_parser = fraction, allow_hyphen_values = true)]
    budget: Option<f64>,
    /// Choose 8, 4, 3 or 2 bits or f32 for each layer so that the score on the calibration samples
    /// falls by at most so many points, with the fewest bytes
    #[arg(long, value_name = "POINTS", value_parser = points, allow_hyphen_values = true)]
    #[arg(conflicts_with = "budget")]
    max_drop: Option<f64>,
}

impl QuantizeFlags {
    /// Returns an error for a plan whose models cannot be quantized with these flags.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), RunError> {
        let quantizer = plan.quantizer()?;
        self.outliers.map_or(Ok(()), |_| quantizer.check_outliers())?;
        let settings = self.over(&plan.quantize);
        let refused = |reason: String| RunError::Unusable { reason };
        let (graph, by) = (quantizer.graph()?, settings.quantization(settings.method, ""));
        if graph.has_schemes() {
            settings.check_learned().map_err(refused)?;
        }
        settings.check_formats().map_err(refused)?;
        if settings.weights_only && (settings.plan || settings.only_int8) {
            let reason = "with `quantize.weights_only` no layer computes in int8; leave out --plan \
                          and --only-int8";
            return Err(refused(reason.to_owned()));
        }
        by.check(&graph)
            .map_err(|error| refused(format!("{}: {error}", self.names_layer(&error))))?;
        let Some(budget) = settings.budget.filter(|_| quantizer.knows_sizes()) else {
            return Ok(());
        };
        let name = if self.budget.is_some() { "--budget" } else { "`quantize.budget`" };
        by.check_budget(&graph, &settings.formats(), budget)
            .map_err(|error| refused(format!("{name}: {error}")))
    }

    /// The option or the key that names the layer of an error.
    fn names_layer(&self, error: &QuantizeError) -> &'static str {
        match error {
            QuantizeError::NoSuchLayer { layer, .. } if self.keep.contains(layer) => "--keep",
            QuantizeError::NoSuchLayer { layer, .. }
                if !self.layers.iter().any(|(name, _)| name == layer) =>
            {
                "`quantize.keep`"
            }
            _ => "--layer",
        }
    }

    /// The settings by the flags, and by the plan where no flag is given.
    pub(crate) fn over(&self, plan: &QuantizePlan) -> QuantizeSettings {
        let set = |flag: bool, key: Option<bool>| flag || key.unwrap_or(false);
        let of_bits = |bits| WeightFormat::try_new(bits).expect("the keys allow no others");
        // Flags that choose bits replace all keys that do.
        let are_bits_given = self.bits.is_some() || !self.layers.is_empty();
        let is_choice_given = self.budget.is_some() || self.max_drop.is_some();
        let is_free = !are_bits_given && !is_choice_given;
        QuantizeSettings {
            calibration: self.calibration.or(plan.calibration).unwrap_or(512),
            method: self.method.or(plan.method).unwrap_or(CalibrationMethod::Mse),
            every_method: self.every_method,
            keep: match &self.keep[..] {
                [] => plan.keep.clone().unwrap_or_default(),
                given => given.to_vec(),
            },
            all_int8: set(self.all_int8, plan.all_int8),
            separate_sums: set(self.separate_sums, plan.separate_sums),
            plan: self.plan,
            only_int8: self.only_int8,
            weights_only: set(self.weights_only, plan.weights_only),
            outliers: self.outliers,
            bits: self.bits.or_else(|| plan.bits.filter(|_| !is_choice_given).map(of_bits)),
            asymmetric: set(self.asymmetric, plan.asymmetric),
            group: self.group.or(plan.group),
            layers: self.layers.clone(),
            rounding: match self.rounding.or(plan.rounding) {
                None | Some(RoundingMethod::Nearest) => Rounding::Nearest,
                Some(RoundingMethod::Gptq) => Rounding::Gptq,
                Some(RoundingMethod::Adaround) => Rounding::AdaRound,
            },
            bias_correction: set(self.bias_correction, plan.bias_correction),
            equalize: set(self.equalize, plan.equalize),
            sensitivity: self.sensitivity,
            budget: self.budget.or_else(|| plan.budget.filter(|_| is_free)),
            max_drop: self.max_drop.or_else(|| plan.max_drop.filter(|_| is_free)),
        }
    }
}

/// The settings of a quantization.
#[derive(Debug, Clone)]
pub(crate) struct QuantizeSettings {
    pub(super) calibration: u32,
    pub(super) method: CalibrationMethod,
    pub(super) every_method: bool,
    keep: Vec<String>,
    all_int8: bool,
    separate_sums: bool,
    pub(super) plan: bool,
    pub(super) only_int8: bool,
    pub(super) weights_only: bool,
    pub(super) outliers: Option<f32>,
    bits: Option<WeightFormat>,
    asymmetric: bool,
    group: Option<u32>,
    layers: Vec<(String, WeightFormat)>,
    rounding: Rounding,
    bias_correction: bool,
    pub(super) equalize: bool,
    sensitivity: bool,
    pub(super) budget: Option<f64>,
    pub(super) max_drop: Option<f64>,
}

impl QuantizeSettings {
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

    /// Whether the settings change a network that was trained to round with learnt steps.
    fn check_learned(&self) -> Result<(), String> {
        let is_rounded = self.rounding != Rounding::Nearest;
        let are_few = self.group.is_some() || self.asymmetric;
        let given = [
            (self.equalize, "--equalize (`quantize.equalize`)"),
            (self.weights_only, "--weights-only (`quantize.weights_only`)"),
            (
                self.bits.is_some() || !self.layers.is_empty(),
                "--bits (`quantize.bits`) and --layer",
            ),
            (is_rounded, "--rounding (`quantize.rounding`)"),
            (self.every_method, "--every-method"),
            (self.sensitivity, "--sensitivity"),
            (self.budget.is_some(), "--budget (`quantize.budget`)"),
            (self.max_drop.is_some(), "--max-drop (`quantize.max_drop`)"),
            (are_few, "--group and --asymmetric (and their keys of `quantize`)"),
        ];
        let Some((_, name)) = given.into_iter().find(|(is_given, _)| *is_given) else {
            return Ok(());
        };
        Err(format!(
            "the network has learnt the steps of its codes with `train.quantization`; leave out {name}"
        ))
    }

    /// Whether some weights can have a scale for each group, and zero points, if these are given.
    fn check_formats(&self) -> Result<(), String> {
        let mut names: Vec<&str> = self.layers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("--layer gives `{}` bits twice; give them once", twice[0]));
        }
        if self.measures_layers() {
            return Ok(());
        }
        let mut formats = self.bits.iter().chain(self.layers.iter().map(|(_, format)| format));
        if self.group.is_some() && formats.clone().all(|format| format.bits() == 8) {
            return Err(
                "groups with scales of their own are of weights of fewer than 8 bits, and \
                        no layer has such: give `--bits`, `--layer` or `--budget` as well"
                    .to_owned(),
            );
        }
        if self.asymmetric && formats.all(|format| format.try_asymmetric().is_err()) {
            return Err(
                "zero points are of weights of 4, 3 or 2 bits, and no layer has such: give \
                        `--bits`, `--layer` or `--budget` as well"
                    .to_owned(),
            );
        }
        Ok(())
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
    pub(super) fn quantization(&self, method: CalibrationMethod, set_hash: &str) -> Quantization {
        let mut by = Quantization::new(observer(method))
            .keep(self.keep.iter().cloned())
            .rounding(self.rounding)
            .set_hash(set_hash);
        if let Some(bits) = self.bits {
            by = by.weights(self.format(bits));
        }
        for (layer, format) in &self.layers {
            by = by.layer(layer, self.format(*format));
        }
        if !self.all_int8 {
            by = by.float_tail();
        }
        if self.separate_sums {
            by = by.separate_sums();
        }
        if self.weights_only {
            by = by.weights_only();
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

fn factor(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(factor),
        _ => Err("expected a positive number such as 64".to_owned()),
    }
}

const fn observer(method: CalibrationMethod) -> Calibration {
    match method {
        CalibrationMethod::Minmax => Calibration::MinMax,
        CalibrationMethod::Percentile => Calibration::Percentile(0.9999),
        CalibrationMethod::Entropy => Calibration::Entropy,
        CalibrationMethod::Mse => Calibration::MeanSquaredError,
    }
}

/// A value by its name in a configuration.
fn named<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let name = toml::Value::String(text.to_owned());
    name.try_into::<T>().map_err(|error| error.message().to_owned())
}
