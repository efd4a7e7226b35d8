//! The table that `quantize` prints.

use updraft_quant::{Evaluation, RoundedLayer};

use super::latency::Latency;
use super::methods::Compared;
use crate::wrap::hanging;

/// Where the codes of a model come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelKind {
    /// Weights and activations have codes, these by calibration.
    Int8,
    /// Only weights have codes.
    WeightsOnly,
    /// Training learned the steps of all codes; it rounds in f32, too.
    Learned,
}

/// Score, size and latency in f32 and of the model, then notes.
pub(super) fn table(
    evaluation: &Evaluation,
    kind: ModelKind,
    latencies: &[Latency],
    methods: &[Compared],
    rounded: &[RoundedLayer],
) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let scored = |score: f64| match evaluation.is_share {
        true => percent(score),
        false => format!("{score:.4e}"),
    };
    let mib = |bytes: usize| format!("{:.3} MiB", bytes as f64 / f64::from(1 << 20));
    let mut lines = vec![
        match kind {
            ModelKind::Int8 => format!("{:24}{:>14}{:>14}", "", "f32", "int8"),
            ModelKind::WeightsOnly => format!("{:24}{:>14}{:>14}", "", "f32", "weights only"),
            ModelKind::Learned => format!("{:24}{:>14}{:>14}", "", "as trained", "int8"),
        },
        format!(
            "{:24}{:>14}{:>14}",
            format!("test {}", evaluation.score.replace('_', " ")),
            scored(evaluation.score_f32),
            scored(evaluation.score_int8)
        ),
        format!(
            "{:24}{:>14}{:>14}",
            "bytes of the file",
            mib(evaluation.bytes_f32),
            mib(evaluation.bytes_int8)
        ),
        format!(
            "{:24}{:>14}{:>14}",
            "bytes of parameters",
            mib(evaluation.bytes_f32),
            mib(evaluation.parameter_bytes)
        ),
    ];
    for Latency { batch, f32_ms, int8_ms } in latencies {
        for (name, f32_ms, int8_ms) in
            [("p50", f32_ms.p50, int8_ms.p50), ("p95", f32_ms.p95, int8_ms.p95)]
        {
            let name = format!("batch of {batch}, {name}");
            lines.push(format!("{name:24}{f32_ms:>11.3} ms{int8_ms:>11.3} ms"));
        }
    }
    let noise = |decibels: Option<f64>| {
        decibels.map_or("no noise".to_owned(), |decibels| format!("{decibels:.1} dB"))
    };
    for Compared { method, score, agreement, sqnr_db } in methods {
        let (score, sqnr) = (scored(*score), noise(*sqnr_db));
        let agreement =
            agreement.map_or(String::new(), |share| format!("      {:>12} agree", percent(share)));
        lines.push(format!("{method:12}{score:>12}{agreement}{sqnr:>12}"));
    }
    // Numbers have no prediction that could be equal.
    let compared = match evaluation.agreement {
        Some(share) => format!("{} of {} predictions agree", percent(share), evaluation.samples),
        None => format!("{} samples", evaluation.samples),
    };
    lines.push(format!(
        "{compared}, signal to noise {}, {} of the multiply-adds in int8",
        noise(evaluation.sqnr_db),
        percent(evaluation.int8_share),
    ));
    lines.push(format!(
        "f32 is better for {} samples, {} for {}: p = {:.3}",
        evaluation.f32_better,
        if kind == ModelKind::WeightsOnly { "the model" } else { "int8" },
        evaluation.int8_better,
        evaluation.p_value
    ));
    if kind == ModelKind::Int8 {
        lines.push(format!(
            "ranges of activations: {} of {} calibration samples",
            evaluation.calibration, evaluation.calibration_samples
        ));
    }
    let gains = rounded.iter().filter_map(|layer| Some(layer.rounded_db? - layer.nearest_db?));
    if let Some(gain) = gains.clone().reduce(f64::min) {
        let count = gains.clone().count();
        lines.push(format!(
            "weights of {count} layers were rounded by their results: {gain:.1} dB less noise than \
             with the nearest codes in the worst of them, {:.1} dB in the mean",
            gains.sum::<f64>() / count as f64,
        ));
    }
    if !evaluation.zero_layers.is_empty() {
        let names = evaluation.zero_layers.join(", ");
        lines.push(format!("layers whose output is zero for all calibration samples: {names}"));
    }
    if !evaluation.advised_f32.is_empty() {
        lines.push(format!(
            "layers with much noise, to keep in f32 first: {}",
            evaluation.advised_f32.join(", ")
        ));
    }
    for Latency { batch, .. } in latencies.iter().filter(|l| l.int8_ms.p50 > l.f32_ms.p50) {
        lines.push(format!("warning: it is slower than f32 at a batch of {batch} here"));
    }
    lines.iter().map(|line| hanging("", line)).collect::<Vec<_>>().join("\n")
}
