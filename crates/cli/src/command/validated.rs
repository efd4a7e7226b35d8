//! The result of `validate`, as a table and as JSON.

use std::fmt;

use serde_json::{Value, json};
use updraft_precision::Parity;
use updraft_run::MetricPair;
use updraft_trainer::Unit;

use crate::progress::metric_text;

/// The largest differences that pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerances {
    /// Of outputs or gradients, relative to the reference in Euclidean norms.
    pub(super) error: f64,
    /// Of metrics.
    pub(super) metric: f64,
}

/// What was compared, and the result.
pub(super) struct Found {
    pub(super) what: What,
    pub(super) samples: usize,
    /// The name of the samples.
    pub(super) short: String,
    pub(super) parity: Parity,
    pub(super) ssim: Option<f64>,
    pub(super) metrics: Vec<MetricPair>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum What {
    Outputs,
    Gradients,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outputs => "outputs",
            Self::Gradients => "gradients",
        })
    }
}

/// The largest difference divided by the largest magnitude of the reference.
const LARGEST: &str = "largest error / peak";

impl Found {
    /// Why the comparison fails, if it does.
    pub(super) fn excess(&self, tolerances: Tolerances) -> Option<String> {
        let Tolerances { error: tolerance, metric: metric_tolerance } = tolerances;
        let error = self.parity.relative_error();
        // NaN is not within a tolerance.
        if error.is_nan() || error > tolerance {
            let what = self.what;
            return Some(format!(
                "the relative error of the {what} is {error:.2e}, more than --tolerance {tolerance}"
            ));
        }
        let other = self.metrics.iter().find(|pair| !pair.is_within(metric_tolerance))?;
        let name = &other.spec.name;
        Some(format!(
            "the {name} differs by {}, more than --metric-tolerance {metric_tolerance}",
            apart(other)
        ))
    }

    /// The table.
    pub(super) fn lines(&self, tolerances: Tolerances) -> Vec<String> {
        let Self { what, samples, short, parity, ssim, metrics } = self;
        let Tolerances { error: tolerance, metric: metric_tolerance } = tolerances;
        let error = parity.relative_error();
        let verdict = |is_within: bool| if is_within { "within" } else { "MORE THAN" };
        let names = metrics.iter().map(|pair| pair.spec.name.len());
        let width = 2 + names.chain([LARGEST.len()]).max().unwrap_or(0);
        let mut lines = vec![format!("inputs      {samples} {short}"), format!("{what}:")];
        let mut line = |name: &str, value: String| lines.push(format!("{name:width$}{value}"));
        line(
            "relative error",
            format!("{error:<12.2e}{} {tolerance}", verdict(error <= tolerance)),
        );
        line("largest error", format!("{:.2e}", parity.max_abs));
        line(LARGEST, format!("{:.2e}", parity.max_rel));
        line("cosine similarity", format!("{:.8}", parity.cosine));
        line("PSNR", decibels(parity.psnr_db));
        line("SQNR", decibels(parity.sqnr_db));
        if let Some(ssim) = ssim {
            line("SSIM", format!("{ssim:.6}"));
        }
        lines.push("metrics (reference, compared, difference):".to_owned());
        for pair in metrics {
            let text = |value| metric_text(&pair.spec, value);
            let values = format!("{:<12}{:<12}", text(pair.reference), text(pair.result));
            let within = verdict(pair.is_within(metric_tolerance));
            lines.push(format!(
                "{:width$}{values}{:<14}{within} {metric_tolerance}",
                pair.spec.name,
                apart(pair)
            ));
        }
        lines
    }

    pub(super) fn json(
        &self,
        (reference, against): (&str, &str),
        tolerances: Tolerances,
        passed: bool,
    ) -> Value {
        let Self { what, samples, parity, ssim, metrics, .. } = self;
        // JSON has no infinity: equal outputs have no noise.
        let finite = |value: f64| value.is_finite().then_some(value);
        let metrics: Vec<Value> = metrics
            .iter()
            .map(|pair| {
                json!({ "metric": pair.spec.name, "reference": pair.reference,
                        "against": pair.result, "difference": finite(pair.difference()) })
            })
            .collect();
        json!({
            "version": 1,
            "reference": reference,
            "against": against,
            "compared": what.to_string(),
            "samples": samples,
            "relative_error": finite(parity.relative_error()),
            "largest_error": finite(parity.max_abs),
            "largest_error_of_peak": finite(parity.max_rel),
            "cosine": finite(parity.cosine),
            "psnr_db": finite(parity.psnr_db),
            "sqnr_db": finite(parity.sqnr_db),
            "ssim": ssim,
            "metrics": metrics,
            "tolerance": tolerances.error,
            "metric_tolerance": tolerances.metric,
            "passed": passed,
        })
    }
}

/// A difference of a metric: points of fractions, per cent of others.
fn apart(pair: &MetricPair) -> String {
    let unit = if pair.spec.unit == Unit::Share { "points" } else { "%" };
    format!("{:+.2} {unit}", 100.0 * pair.difference())
}

/// `equal` for no noise.
fn decibels(value: f64) -> String {
    if value == f64::INFINITY { "equal".to_owned() } else { format!("{value:.1} dB") }
}
