//! The table that `quantize` prints.

use updraft_quant::Evaluation;

use super::latency::Latency;
use super::methods::Compared;
use crate::wrap::hanging;

/// Accuracy, size and time both ways, then what to know of them.
pub(super) fn table(
    evaluation: &Evaluation,
    latencies: &[Latency],
    methods: &[Compared],
) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let mib = |bytes: usize| format!("{:.3} MiB", bytes as f64 / f64::from(1 << 20));
    let mut lines = vec![
        format!("{:24}{:>14}{:>14}", "", "f32", "int8"),
        format!(
            "{:24}{:>14}{:>14}",
            "test accuracy",
            percent(evaluation.accuracy_f32),
            percent(evaluation.accuracy_int8)
        ),
        format!(
            "{:24}{:>14}{:>14}",
            "bytes",
            mib(evaluation.bytes_f32),
            mib(evaluation.bytes_int8)
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
    for Compared { method, accuracy, agreement, sqnr_db } in methods {
        let sqnr = sqnr_db.map_or("no noise".to_owned(), |decibels| format!("{decibels:.1} dB"));
        let [accuracy, agreement] = [accuracy, agreement].map(|share| percent(*share));
        lines.push(format!("{method:12}{accuracy:>12} right{agreement:>12} agree{sqnr:>12}"));
    }
    let sqnr =
        evaluation.sqnr_db.map_or("no noise".to_owned(), |decibels| format!("{decibels:.1} dB"));
    let agreement = percent(evaluation.agreement);
    lines.push(format!(
        "{agreement} of {} answers agree, signal to noise {sqnr}, {} of the work in int8",
        evaluation.images,
        percent(evaluation.int8_share),
    ));
    lines.push(format!(
        "f32 alone is right {} times, int8 alone {} times: p = {:.3}",
        evaluation.only_f32_right, evaluation.only_int8_right, evaluation.p_value
    ));
    if !evaluation.zero_layers.is_empty() {
        let names = evaluation.zero_layers.join(", ");
        lines.push(format!("layers that gave only zero for all calibration samples: {names}"));
    }
    if !evaluation.advised_f32.is_empty() {
        lines.push(format!(
            "noisy layers, to keep in f32 first: {}",
            evaluation.advised_f32.join(", ")
        ));
    }
    for Latency { batch, .. } in latencies.iter().filter(|l| l.int8_ms.p50 > l.f32_ms.p50) {
        lines.push(format!("warning: int8 is slower than f32 at a batch of {batch} here"));
    }
    lines.iter().map(|line| hanging("", line)).collect::<Vec<_>>().join("\n")
}
