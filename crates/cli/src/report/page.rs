//! The page of a run: curves, where the time went, plan and environment.

use std::fmt::Write;

use anyhow::Result;
use serde_json::Value;

use super::plot::{Curve, Scale, escape, plot};
use super::quantized::quantized;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2330; background: #fff; }
pre { background: #f4f5f7; padding: .75rem 1rem; overflow-x: auto; font-size: 13px; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .2rem; }
p { margin: .2rem 0 .6rem; } svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; overflow-wrap: anywhere; }
td, th { padding: .1rem .9rem .1rem 0; text-align: left; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums;
                       white-space: nowrap; }
.bar { display: inline-block; height: .7rem; background: #0072b2; }
.key span { margin-right: 1.2rem; }";

/// Points of a curve beyond which a page grows without showing more.
const MOST_POINTS: usize = 1500;

/// The phases of a step in their order, as name and field.
const PHASES: [(&str, &str); 5] = [
    ("data wait", "data_wait_us"),
    ("copy to the device", "copy_us"),
    ("forward", "forward_us"),
    ("backward", "backward_us"),
    ("optimizer", "optimizer_us"),
];

/// The page of a run, from its metrics and the texts of its other files.
pub(crate) fn page(
    name: &str,
    metrics: &[Value],
    summary: Option<&Value>,
    quant: Option<&Value>,
    texts: &[(&str, String)],
) -> Result<String> {
    let of_kind = |kind: &'static str| metrics.iter().filter(move |line| line["event"] == kind);
    let steps: Vec<&Value> = of_kind("step").collect();
    let epochs: Vec<&Value> = of_kind("epoch").collect();
    let mut body = format!("<h1>{}</h1>\n", escape(name));
    if let Some(summary) = summary {
        let _ = writeln!(body, "<p>{}</p>", escape(&sentence(summary)));
    }
    let curve = |name: &str, lines: &[&Value], field: &str| Curve {
        name: name.to_owned(),
        points: thinned(points(lines, field)),
    };
    let mib = |name, field| {
        let mut curve = curve(name, &epochs, field);
        curve.points.iter_mut().for_each(|point| point.1 /= f64::from(1 << 20));
        curve
    };
    let plots: [(&str, &str, Vec<Curve>); 9] = [
        (
            "Loss",
            "update",
            vec![
                curve("training, each batch", &steps, "/loss"),
                curve("training, mean of the epoch", &epochs, "/train_loss"),
                curve("test", &epochs, "/test/loss"),
            ],
        ),
        (
            "Accuracy",
            "update",
            vec![
                curve("training", &epochs, "/train_accuracy"),
                curve("test", &epochs, "/test/accuracy"),
            ],
        ),
        (
            "R², the share of variance explained",
            "update",
            vec![curve("test", &epochs, "/test/r_squared")],
        ),
        ("Learning rate", "update", vec![curve("learning rate", &steps, "/learning_rate")]),
        (
            "Norm of the gradients, before clipping",
            "update",
            vec![curve("norm", &steps, "/gradient_norm")],
        ),
        (
            "Training samples per second",
            "update",
            vec![curve("samples per second", &epochs, "/samples_per_s")],
        ),
        (
            "Share of the device's measured peak",
            "update",
            vec![curve("arithmetic of the model", &epochs, "/peak_share")],
        ),
        (
            "Memory of this process, MiB",
            "update",
            vec![
                mib("held at the epoch's end", "/resident_bytes"),
                mib("most in the epoch", "/epoch_peak_resident_bytes"),
                mib("most ever", "/peak_resident_bytes"),
            ],
        ),
        (
            "Memory on the device, MiB",
            "update",
            vec![
                mib("most in use in the epoch", "/device_peak_in_use_bytes"),
                mib("most reserved in the epoch", "/device_peak_reserved_bytes"),
            ],
        ),
    ];
    for (title, x_name, curves) in plots {
        body.push_str(&plot(title, x_name, Scale::Linear, &curves)?);
    }
    for (place, curves) in integration(&epochs) {
        body.push_str(&plot(&place, "update", Scale::Linear, &curves)?);
    }
    body.push_str(&breakdown(&epochs));
    body.push_str(&left_out(&steps));
    if let Some(report) = quant {
        body.push_str(&quantized(report));
    }
    for (name, text) in texts {
        let _ = write!(body, "<h2>{}</h2>\n<pre>{}</pre>\n", escape(name), escape(text.trim_end()));
    }
    Ok(document(name, &body))
}

/// A whole page that needs nothing else.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n",
        escape(title)
    )
}

/// What a summary says, in a sentence.
fn sentence(summary: &Value) -> String {
    let mut text = match summary["complete"].as_bool() {
        Some(true) => "Complete".to_owned(),
        _ => "Stopped".to_owned(),
    };
    let _ =
        write!(text, " after {} updates of {} parameters", summary["steps"], summary["parameters"]);
    if let Some(accuracy) = summary.pointer("/test/accuracy").and_then(Value::as_f64) {
        let _ = write!(text, ", test accuracy {:.2} %", 100.0 * accuracy);
    }
    if let Some(rmse) = summary["test_rmse"].as_f64() {
        let _ = write!(text, ", test RMSE {rmse:.4}");
    }
    if let Some(wall_s) = summary["wall_s"].as_f64() {
        let _ = write!(text, ", {wall_s:.0} s");
    }
    if let Some(cpu_s) = summary["cpu_s"].as_f64() {
        let _ = write!(text, ", {cpu_s:.0} s on all cores");
    }
    text.push('.');
    text
}

/// The values of a field over the updates made.
fn points(lines: &[&Value], field: &str) -> Vec<(f64, f64)> {
    let point = |line: &&Value| {
        let step = line["step"].as_f64()?;
        // A step counts the updates before it, an epoch those up to its end.
        let made = if line["event"] == "step" { step + 1.0 } else { step };
        Some((made, line.pointer(field)?.as_f64()?))
    };
    lines.iter().filter_map(point).collect()
}

/// At most [`MOST_POINTS`], each the mean of as many neighbors.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points;
    }
    let group = points.len().div_ceil(MOST_POINTS);
    let mean = |points: &[(f64, f64)]| {
        let sum = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / points.len() as f64, sum.1 / points.len() as f64)
    };
    points.chunks(group).map(mean).collect()
}

/// The weights of each integration over time.
fn integration(epochs: &[&Value]) -> Vec<(String, Vec<Curve>)> {
    let places = epochs.first().and_then(|epoch| epoch["integration_weights"].as_array());
    let mut plots = Vec::new();
    for (index, place) in places.into_iter().flatten().enumerate() {
        let name = match &place["stage"] {
            Value::String(name) => name.clone(),
            stage => format!("stage {}", stage["stage"]),
        };
        let curve = |stream: &str| Curve {
            name: stream.to_owned(),
            points: points(epochs, &format!("/integration_weights/{index}/{stream}")),
        };
        let curves = ["color", "brightness", "stream"].map(curve);
        let curves = curves.into_iter().filter(|curve| !curve.points.is_empty()).collect();
        plots.push((format!("Integration weights as applied, {name}"), curves));
    }
    plots
}

/// Where the time of all updates went, as a table with bars.
fn breakdown(epochs: &[&Value]) -> String {
    let sum = |field: &str| epochs.iter().filter_map(|epoch| epoch[field].as_f64()).sum::<f64>();
    let whole = sum("train_us");
    if whole == 0.0 {
        return String::new();
    }
    let mut rows: Vec<(&str, f64)> =
        PHASES.iter().map(|(name, field)| (*name, sum(field))).collect();
    let measured: f64 = rows.iter().map(|(_, us)| us).sum();
    rows.push(("everything else", (whole - measured).max(0.0)));
    let mut table = "<h2>Where the training time went</h2>\n<table>\n".to_owned();
    for (name, us) in rows {
        let share = 100.0 * us / whole;
        let _ = writeln!(
            table,
            "<tr><td>{name}</td><td class=\"number\">{:.2} s</td><td class=\"number\">{share:.1} %</td>\
             <td><span class=\"bar\" style=\"width:{:.0}px\"></span></td></tr>",
            us * 1e-6,
            3.0 * share,
        );
    }
    table.push_str("</table>\n");
    table
}

/// The updates that were left out, if any.
fn left_out(steps: &[&Value]) -> String {
    let skipped: Vec<String> = steps
        .iter()
        .filter_map(|step| Some(format!("update {}: {}", step["step"], step["skipped"].as_str()?)))
        .collect();
    if skipped.is_empty() {
        return String::new();
    }
    let shown = skipped.iter().take(20).map(|line| escape(line)).collect::<Vec<_>>().join("\n");
    format!(
        "<h2>{} updates were left out because something was not finite</h2>\n<pre>{shown}</pre>\n",
        skipped.len()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_holds_curves_times_plan_and_no_script() {
        let weights = json!([{ "stage": { "stage": 0 }, "color": 0.6, "brightness": 0.4 },
                             { "stage": "pooled", "color": 0.3, "brightness": 0.7 }]);
        let metrics = [
            json!({ "event": "step", "step": 0, "loss": 2.0, "learning_rate": 0.1 }),
            json!({ "event": "step", "step": 1, "loss": null, "skipped": "the images" }),
            json!({ "event": "epoch", "step": 2, "train_loss": 1.5, "train_us": 1000,
                    "forward_us": 250, "resident_bytes": 3_145_728, "integration_weights": weights }),
        ];
        let summary = json!({ "complete": true, "steps": 2, "parameters": 7,
                              "test": { "accuracy": 0.5 } });
        let texts = [("plan.toml", "name = \"<script>\"".to_owned())];
        let page = page("a run", &metrics, Some(&summary), None, &texts).expect("a page");
        for expected in [
            "Complete after 2 updates of 7 parameters, test accuracy 50.00 %.",
            "Integration weights as applied, stage 0",
            "Integration weights as applied, pooled",
            "Memory of this process, MiB",
            "<td>forward</td><td class=\"number\">0.00 s</td><td class=\"number\">25.0 %</td>",
            "1 updates were left out",
            "name = &quot;&lt;script&gt;&quot;",
        ] {
            assert!(page.contains(expected), "`{expected}` is missing");
        }
        for foreign in ["<script", "http:", "https:", "src=", "@import"] {
            let found = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(foreign), "the page holds `{foreign}`");
        }
    }

    #[test]
    fn long_curves_are_thinned_to_means() {
        let points: Vec<(f64, f64)> = (0..4000).map(|i| (f64::from(i), 1.0)).collect();
        let thin = thinned(points);
        assert!(thin.len() <= MOST_POINTS);
        assert_eq!(thin[0], (1.0, 1.0));
    }
}
