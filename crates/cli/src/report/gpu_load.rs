//! The load of a run's GPU, as a section of its page.

use std::fmt::Write;

use serde_json::Value;

use super::plot::escape;

/// What a GPU waited for, by the fields of a summary.
const IDLE: [(&str, &str); 6] = [
    ("waits for batches", "data_wait_share"),
    ("copies to the device", "copy_share"),
    ("waits for other ranks and exchanges", "ranks_share"),
    ("waits for the host between kernels", "submission_share"),
    ("evaluations", "evaluation_share"),
    ("checkpoints", "checkpoint_share"),
];

/// How busy the GPU was, and what it waited for; empty for a run whose GPU was not observed.
pub(super) fn gpu_load(summary: &Value) -> String {
    let gpu = &summary["gpu"];
    if !gpu.is_object() {
        return String::new();
    }
    let mut facts = Vec::new();
    if let Some(busy) = gpu["busy_share"].as_f64() {
        let samples = gpu["samples"].as_u64().unwrap_or_default();
        facts.push(format!(
            "kernels ran in {:.1} % of the time, the mean of {samples} samples",
            100.0 * busy
        ));
    }
    if let Some(bytes) = gpu["peak_memory_bytes"].as_u64() {
        facts.push(format!("at most {} MiB were in use by all programs", bytes >> 20));
    }
    if let Some(celsius) = gpu["peak_temperature_c"].as_f64() {
        facts.push(format!("it was at most {celsius:.0} °C warm"));
    }
    if let Some(watts) = gpu["mean_power_w"].as_f64() {
        facts.push(format!("it took {watts:.0} W on average"));
    }
    let mut text = format!(
        "<h2>GPU</h2>\n<p>By NVIDIA's library, after the first updates: {}.</p>\n",
        facts.join("; ")
    );
    if let Some(warning) = gpu["warning"].as_str() {
        let _ = writeln!(text, "<p>Warning: {}.</p>", escape(warning));
    }
    if gpu["idle"].is_object() {
        text.push_str(
            "<div class=\"scroll\"><table>\n<tr><th>idle during</th>\
             <th class=\"number\">of the time</th><th></th></tr>\n",
        );
        for (name, field) in IDLE {
            let share = 100.0 * gpu["idle"][field].as_f64().unwrap_or_default();
            let _ = writeln!(
                text,
                "<tr><td>{name}</td><td class=\"number\">{share:.1} %</td>\
                 <td><span class=\"bar\" style=\"width:{:.0}px\"></span></td></tr>",
                3.0 * share.clamp(0.0, 100.0)
            );
        }
        text.push_str("</table></div>\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gpu_has_its_load_its_warning_and_what_it_waited_for() {
        assert_eq!(gpu_load(&json!({ "gpu": null })), "");
        assert_eq!(gpu_load(&json!({})), "");
        let idle = json!({ "data_wait_share": 0.25, "submission_share": 0.14 });
        let gpu = json!({ "busy_share": 0.61, "peak_memory_bytes": 3 << 20, "samples": 40,
                          "peak_temperature_c": 71, "mean_power_w": null, "idle": idle,
                          "warning": "<less> than 80 %" });
        let text = gpu_load(&json!({ "gpu": gpu }));
        for expected in [
            "after the first updates: kernels ran in 61.0 % of the time, the mean of 40 samples; \
             at most 3 MiB were in use by all programs; it was at most 71 °C warm.",
            "<th class=\"number\">of the time</th>",
            "Warning: &lt;less&gt; than 80 %.",
            "<td>waits for batches</td><td class=\"number\">25.0 %</td>",
            "<td>checkpoints</td><td class=\"number\">0.0 %</td>",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        // A part of a card has no busy share, and so no samples of it.
        let text = gpu_load(&json!({ "gpu": { "busy_share": null, "samples": 0,
                                              "mean_power_w": 300.0, "idle": null } }));
        assert!(text.contains("after the first updates: it took 300 W on average."), "{text}");
        assert!(!text.contains("samples") && !text.contains("<table>"), "{text}");
    }
}
