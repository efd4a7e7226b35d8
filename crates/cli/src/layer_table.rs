//! The slowest layers of traced steps.

use updraft_run::{LayerTime, LayerTimes};

use crate::performance::{number, share};
use crate::wrap::{counted, hanging};

/// The number of layers in the table.
pub(crate) const MOST: usize = 10;

/// The table, at most eighty columns wide if the names of the layers are short enough.
pub(crate) fn lines(times: &LayerTimes, step: &str) -> Vec<String> {
    let forward_ms = 1e-3 * times.forward_us as f64 / times.steps.max(1) as f64;
    let peak = times.peak_gflop_per_s;
    let peak = peak.map_or_else(String::new, |peak| format!("; peak {peak:.0} GFLOP/s"));
    let steps = match (times.steps, step) {
        (1, _) | (_, "step") => counted(times.steps, step),
        (count, _) => format!("{count} {step}es"),
    };
    let title = format!("slowest layers, forward: {steps} of {forward_ms:.2} ms{peak}");
    let mut lines = vec![hanging("", &title)];
    if times.layers.is_empty() {
        lines.push("no convolution was computed by Updraft's kernels".to_owned());
        return lines;
    }
    lines.push(format!("{:34}{:>10}{:>10}{:>12}{:>10}", "", "ms", "share", "GFLOP/s", "of peak"));
    for layer in times.layers.iter().take(MOST) {
        let [ms, of_forward, rate, of_peak] = cells(times, layer);
        lines.push(format!("{:34}{ms:>10}{of_forward:>10}{rate:>12}{of_peak:>10}", layer.layer));
    }
    let rest = times.layers.len().saturating_sub(MOST);
    let us = times.forward_us as f64
        - times.layers.iter().take(MOST).map(|it| it.forward_us).sum::<f64>();
    let name = match rest {
        0 => "everything else".to_owned(),
        rest => format!("{} and everything else", counted(rest as u64, "layer")),
    };
    let ms = number(1e-3 * us.max(0.0) / times.steps.max(1) as f64);
    let of_forward = share(us.max(0.0) / times.forward_us.max(1) as f64);
    lines.push(format!("{name:34}{ms:>10}{of_forward:>10}"));
    lines
}

/// Milliseconds of a step, the share of the forward pass, the rate, and its share of the peak.
pub(crate) fn cells(times: &LayerTimes, layer: &LayerTime) -> [String; 4] {
    let rate = times.gflop_per_s(layer);
    [
        number(1e-3 * layer.forward_us / times.steps.max(1) as f64),
        share(layer.forward_us / times.forward_us.max(1) as f64),
        number(rate),
        times.peak_gflop_per_s.map_or_else(|| "-".to_owned(), |peak| share(rate / peak)),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn times(layers: usize) -> LayerTimes {
        let layer = |at: usize| {
            json!({ "layer": format!("stage.{at}.conv"), "calls": 2, "forward_us": 1000.0,
                    "operations": 50_000_000 })
        };
        let times = json!({
            "steps": 2, "forward_us": 20_000, "peak_gflop_per_s": 200.0,
            "layers": (0..layers).map(layer).collect::<Vec<_>>(),
        });
        serde_json::from_value(times).expect("layer times")
    }

    #[test]
    fn a_layer_has_its_time_rate_and_share_of_the_peak() {
        let lines = lines(&times(12), "step");
        let text = lines.join("\n");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        // 50 MFLOP in 1 ms are 50 GFLOP/s.
        let cells = lines[2].split_whitespace().collect::<Vec<_>>();
        assert_eq!(cells, ["stage.0.conv", "0.50", "5.0", "%", "50.00", "25", "%"], "{text}");
        assert_eq!(lines.len(), 2 + MOST + 1, "{text}");
        let rest = lines[12].split_whitespace().collect::<Vec<_>>();
        assert_eq!(rest[..2], ["2", "layers"], "{text}");
        assert!(lines[12].ends_with("5.00      50 %"), "{text}");
    }

    #[test]
    fn a_model_without_convolutions_is_told() {
        let lines = lines(&times(0), "batch");
        assert_eq!(lines[1], "no convolution was computed by Updraft's kernels");
        assert_eq!(lines[0], "slowest layers, forward: 2 batches of 10.00 ms; peak 200 GFLOP/s");
    }
}
