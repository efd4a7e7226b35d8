//! The page of a run: curves, times, plan and environment.

use std::fmt::Write;

use anyhow::Result;
use serde_json::Value;

use updraft_run::{Contributions, LayerTimes, Picture, RunSchema};
use updraft_trainer::{MetricSpec, Unit};

use super::contributions::contributions;
use super::gpu_load::gpu_load;
use super::pictures::pictures;
use super::plot::{Curve, Scale, escape, plot};
use super::quantized::quantized;
use super::ranks::of_ranks;
use crate::layer_table;
use crate::progress::metric_text;
use crate::wrap::counted;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 82rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2330; background: #fff; }
pre { background: #f4f5f7; padding: .75rem 1rem; overflow-x: auto; font-size: 13px; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 2rem 0 .2rem; }
p { margin: .2rem 0 .6rem; } svg { width: 100%; max-width: 36rem; height: auto; }
.figures { display: grid; gap: .4rem 1.2rem;
           grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; min-width: 0; } figure.wide { grid-column: 1 / -1; overflow-x: auto; }
figure.wide svg { min-width: 44rem; max-width: none; }
figcaption { margin: .8rem 0 .3rem; }
.scroll { overflow-x: auto; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin-bottom: .8rem; }
.tiles div { width: 7.5rem; font-size: 12px; line-height: 1.3; overflow-wrap: anywhere; }
.tiles img { display: block; image-rendering: pixelated; }
table { border-collapse: collapse; }
td, th { padding: .1rem .9rem .1rem 0; text-align: left; }
td:first-child { min-width: 7rem; }
td.name { overflow-wrap: anywhere; min-width: 9rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums;
                       white-space: nowrap; }
.trials th { vertical-align: bottom; } .trials th.number { white-space: normal; }
.trials td:first-child { min-width: 3rem; } .trials td:last-child { min-width: 10rem; }
.confusion td, .confusion th { padding: .1rem .35rem; text-align: right; font-weight: normal;
                               font-size: 13px; white-space: nowrap; }
.confusion th.turned { vertical-align: bottom; }
.confusion th.turned span { writing-mode: vertical-rl; transform: rotate(180deg); }
.bar { display: inline-block; height: .7rem; background: #0072b2; }
td.length { width: 14rem; } td.words { min-width: 16rem; }
.rates { width: 100%; max-width: 50rem; margin: .4rem 0 1rem; }
.rates td.place { position: relative; width: 100%; padding: 0; }
.rates td.number { padding: .1rem 0 .1rem .7rem; }
.rates .rate { height: 1rem; }
.rates .spread { position: absolute; top: 50%; border-top: 1px solid #1c2330; }
.rates .baseline { position: absolute; top: 0; height: 100%; border-left: 1px dashed #1c2330; }
.key span { display: inline-block; margin-right: 1.2rem; }";

/// The content-security policy: only inline styles and images. No script runs, not even one
/// injected by a name.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// The largest number of points of a curve.
const MOST_POINTS: usize = 1500;

/// The phases of a step in their order, as name and field.
const PHASES: [(&str, &str); 7] = [
    ("data wait", "data_wait_us"),
    ("copy to the device", "copy_us"),
    ("forward", "forward_us"),
    ("backward", "backward_us"),
    ("wait for other ranks", "rank_wait_us"),
    ("exchange with them", "exchange_us"),
    ("optimizer", "optimizer_us"),
];

/// Those that only a run on several ranks has.
const BETWEEN_RANKS: [&str; 2] = ["rank_wait_us", "exchange_us"];

/// The parts of a page.
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) schema: RunSchema,
    pub(crate) metrics: Vec<Value>,
    /// The summary of the run, or the error of reading it; `None` before its end.
    pub(crate) summary: Option<Result<Value, String>>,
    /// The report of `quantize`.
    pub(crate) quantized: Option<Value>,
    /// The slowest layers, of a run with traced steps.
    pub(crate) layers: Option<LayerTimes>,
    pub(crate) pictures: Vec<Picture>,
    /// Of a finished run of a network with pathways.
    pub(crate) contributions: Option<Contributions>,
    /// Files that are shown unchanged, by name.
    pub(crate) texts: Vec<(&'static str, String)>,
}

/// The page of a run.
pub(crate) fn page(run: &Run) -> Result<String> {
    let of_kind = |kind: &'static str| run.metrics.iter().filter(move |line| line["event"] == kind);
    let steps: Vec<&Value> = of_kind("step").collect();
    let epochs: Vec<&Value> = of_kind("epoch").collect();
    let mut body = format!("<h1>{}</h1>\n", escape(&run.name));
    if let Some(summary) = &run.summary {
        let text = match summary {
            Ok(summary) => sentence(summary, &run.schema),
            Err(damage) => format!("How the run ended is not known: {damage}."),
        };
        let _ = writeln!(body, "<p>{}</p>", escape(&text));
    }
    body.push_str("<div class=\"figures\">\n");
    for (title, curves) in plots(&run.schema, &steps, &epochs) {
        body.push_str(&plot(&title, "update", Scale::Linear, &curves)?);
    }
    body.push_str(&pictures(&run.pictures)?);
    body.push_str("</div>\n");
    body.push_str(&run.contributions.as_ref().map_or_else(String::new, contributions));
    body.push_str(&breakdown(&epochs));
    body.push_str(&of_ranks(&epochs));
    if let Some(Ok(summary)) = &run.summary {
        body.push_str(&gpu_load(summary));
    }
    body.push_str(&run.layers.as_ref().map_or_else(String::new, slowest_layers));
    body.push_str(&left_out(&steps));
    if let Some(report) = &run.quantized {
        body.push_str(&quantized(report));
    }
    for (name, text) in &run.texts {
        let _ = write!(body, "<h2>{}</h2>\n<pre>{}</pre>\n", escape(name), escape(text.trim_end()));
    }
    Ok(document(&run.name, &body))
}

/// The plots of a run, each with its curves; those without a point are not drawn.
fn plots(schema: &RunSchema, steps: &[&Value], epochs: &[&Value]) -> Vec<(String, Vec<Curve>)> {
    let curve = |name: &str, lines: &[&Value], field: &str| Curve {
        name: name.to_owned(),
        points: thinned(points(lines, field)),
    };
    let mib = |name, field| {
        let mut curve = curve(name, epochs, field);
        curve.points.iter_mut().for_each(|point| point.1 /= f64::from(1 << 20));
        curve
    };
    let mut plots = vec![(
        "Loss".to_owned(),
        vec![
            curve("training, each batch", steps, "/loss"),
            curve("training, mean of the epoch", epochs, "/train/loss"),
            curve("test", epochs, "/test/loss"),
        ],
    )];
    for metric in schema.metrics.iter().skip(1) {
        let of = |name, split| curve(name, epochs, &format!("/{split}/{}", metric.name));
        plots.push((title(metric), vec![of("training", "train"), of("test", "test")]));
    }
    let one = |title: &str, name, lines, field| (title.to_owned(), vec![curve(name, lines, field)]);
    plots.extend([
        one("Learning rate", "learning rate", steps, "/learning_rate"),
        one("Gradient norm before clipping", "gradient norm", steps, "/gradient_norm"),
        one("Training samples per second", "samples per second", epochs, "/samples_per_s"),
        one(
            "Share of the device's measured peak",
            "arithmetic of the model",
            epochs,
            "/peak_share",
        ),
        one("Share of the time in which the GPU ran kernels", "mean", epochs, "/gpu/busy_share"),
        one("Temperature of the GPU, °C", "peak of the epoch", epochs, "/gpu/peak_temperature_c"),
        one("Power of the GPU, W", "mean of the epoch", epochs, "/gpu/mean_power_w"),
    ]);
    plots.push((
        "Memory of this process, MiB".to_owned(),
        vec![
            mib("at the epoch's end", "/resident_bytes"),
            mib("peak of the epoch", "/epoch_peak_resident_bytes"),
            mib("peak so far", "/peak_resident_bytes"),
        ],
    ));
    plots.push((
        "Memory on the device, MiB".to_owned(),
        vec![
            mib("most in use in the epoch", "/device_peak_in_use_bytes"),
            mib("most reserved in the epoch", "/device_peak_reserved_bytes"),
        ],
    ));
    plots.extend(schema.curves.iter().map(|(title, curves)| {
        let curves = curves.iter().map(|(name, pointer)| curve(name, epochs, pointer));
        (title.clone(), curves.collect())
    }));
    plots
}

/// The title of a metric's plot, with its unit.
fn title(metric: &MetricSpec) -> String {
    let title = metric.title();
    match &metric.unit {
        Unit::None => title,
        Unit::Share => format!("{title} (fraction)"),
        Unit::Of(unit) => format!("{title}, in units of {unit}"),
    }
}

/// A complete, self-contained page.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n",
        escape(title)
    )
}

/// A summary in a sentence.
fn sentence(summary: &Value, schema: &RunSchema) -> String {
    let mut text = match summary["complete"].as_bool() {
        Some(true) => "Complete".to_owned(),
        _ => "Stopped".to_owned(),
    };
    let _ =
        write!(text, " after {} updates of {} parameters", summary["steps"], summary["parameters"]);
    // JSON has no NaN and no infinity.
    if summary["test"].get("loss").is_some_and(Value::is_null) {
        text.push_str(", with a test loss that is not a finite number");
    }
    for metric in schema.metrics.iter().skip(1) {
        if let Some(value) = summary["test"][metric.name.as_ref()].as_f64() {
            let value = match metric.unit {
                Unit::Share => format!("{:.2} %", 100.0 * value),
                _ => metric_text(metric, Some(value)),
            };
            let _ = write!(text, ", test {} {value}", metric.name);
        }
    }
    if let Some(wall_s) = summary["wall_s"].as_f64() {
        let _ = write!(text, ", {wall_s:.0} s");
    }
    if let Some(cpu_s) = summary["cpu_s"].as_f64() {
        let _ = write!(text, ", {cpu_s:.0} s on all cores");
    }
    if let Some(earlier) = summary["earlier_steps"].as_u64().filter(|earlier| *earlier > 0) {
        let _ = write!(text, ", since it was resumed after {earlier} updates");
    }
    text.push('.');
    text
}

/// The values of a field over the updates made.
fn points(lines: &[&Value], field: &str) -> Vec<(f64, f64)> {
    let point = |line: &&Value| {
        // The number of updates is an integer: other values were not written by a run.
        let step = line["step"].as_u64()?;
        // A step counts the updates before it, an epoch those up to its end.
        let made = if line["event"] == "step" { step.saturating_add(1) } else { step } as f64;
        Some((made, line.pointer(field)?.as_f64()?))
    };
    lines.iter().filter_map(point).collect()
}

/// At most [`MOST_POINTS`] points, each the mean of equally many neighbors.
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

/// The time of each phase over all updates, as a table with bars.
fn breakdown(epochs: &[&Value]) -> String {
    let sum = |field: &str| epochs.iter().filter_map(|epoch| epoch[field].as_f64()).sum::<f64>();
    let whole = sum("train_us");
    if whole == 0.0 {
        return String::new();
    }
    let has_ranks = epochs.iter().any(|epoch| epoch["ranks"].is_array());
    let mut rows: Vec<(&str, f64)> = PHASES
        .iter()
        .filter(|(_, field)| has_ranks || !BETWEEN_RANKS.contains(field))
        .map(|(name, field)| (*name, sum(field)))
        .collect();
    let measured: f64 = rows.iter().map(|(_, us)| us).sum();
    rows.push(("everything else", (whole - measured).max(0.0)));
    let mut table = "<h2>Time per phase</h2>\n<div class=\"scroll\"><table>\n".to_owned();
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
    table.push_str("</table></div>\n");
    table
}

/// The slowest layers of the traced steps.
fn slowest_layers(times: &LayerTimes) -> String {
    let peak = times.peak_gflop_per_s.map_or_else(String::new, |peak| {
        format!(" The device multiplies matrices at {peak:.0} GFLOP/s.")
    });
    let steps = counted(times.steps, "traced step");
    if times.layers.is_empty() {
        let reason = escape(layer_table::NONE);
        return format!("<h2>Slowest layers</h2>\n<p>Of {steps}, {reason}.</p>\n");
    }
    let mut table = format!(
        "<h2>Slowest layers</h2>\n<p>Milliseconds a step in {steps}, and the share of the forward and \
         the backward pass.{peak}</p>\n<div class=\"scroll\"><table>\n<tr><th></th>"
    );
    for heading in layer_table::HEADINGS {
        let _ = write!(table, "<th class=\"number\">{heading}</th>");
    }
    table.push_str("</tr>\n");
    for (name, cells) in layer_table::rows(times) {
        let cells = cells.map(|cell| format!("<td class=\"number\">{cell}</td>")).concat();
        let _ = writeln!(table, "<tr><td>{}</td>{cells}</tr>", escape(&name));
    }
    table.push_str("</table></div>\n");
    if let Some(verdict) = layer_table::verdict(times) {
        let _ = writeln!(table, "<p>{}.</p>", escape(&verdict));
    }
    table
}

/// The skipped updates, if any.
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
        "<h2>{} left out because something was not finite</h2>\n<pre>{shown}</pre>\n",
        counted(skipped.len() as u64, "update")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_holds_curves_times_plan_and_no_script() {
        let weights = json!([{ "color": 0.6 }]);
        let metrics = vec![
            json!({ "event": "step", "step": 0, "loss": 2.0, "learning_rate": 0.1 }),
            json!({ "event": "step", "step": 1, "loss": null, "skipped": "the input" }),
            json!({ "event": "epoch", "step": 2, "train": { "loss": 1.5 },
                    "test": { "loss": 1.2, "accuracy": 0.5 }, "train_us": 1000,
                    "forward_us": 250, "resident_bytes": 3_145_728, "weights": weights }),
        ];
        let schema = json!({
            "version": 1, "task": "a task", "samples": "images", "criterion": "test-loss",
            "metrics": [
                { "name": "loss", "unit": "none", "direction": "lower-is-better" },
                { "name": "accuracy", "unit": "share", "direction": "higher-is-better" },
            ],
            "curves": [["Weights of stage 0", [["color", "/weights/0/color"]]]],
        });
        let run = Run {
            name: "a run".to_owned(),
            schema: serde_json::from_value(schema).expect("a schema"),
            metrics,
            summary: Some(Ok(json!({ "complete": true, "steps": 2, "parameters": 7,
                                     "test": { "accuracy": 0.5 } }))),
            quantized: None,
            layers: None,
            pictures: Vec::new(),
            contributions: None,
            texts: vec![("plan.toml", "name = \"<script>\"".to_owned())],
        };
        let page = page(&run).expect("a page");
        for expected in [
            "Complete after 2 updates of 7 parameters, test accuracy 50.00 %.",
            "accuracy",
            "Weights of stage 0",
            "Memory of this process, MiB",
            "<td>forward</td><td class=\"number\">0.00 s</td><td class=\"number\">25.0 %</td>",
            "1 update left out",
            "Accuracy (fraction)",
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
    fn the_time_of_a_resumed_run_is_that_since_it_was_resumed() {
        let schema = json!({ "version": 1, "task": "a task", "samples": "rows", "metrics": [],
                             "criterion": "test-loss", "curves": [] });
        let schema: RunSchema = serde_json::from_value(schema).expect("a schema");
        let of = |earlier: u64| {
            let summary = json!({ "complete": true, "steps": 9, "parameters": 7, "wall_s": 4.0,
                                  "earlier_steps": earlier });
            sentence(&summary, &schema)
        };
        assert_eq!(of(0), "Complete after 9 updates of 7 parameters, 4 s.");
        let resumed = "Complete after 9 updates of 7 parameters, 4 s, since it was resumed after 5 \
                       updates.";
        assert_eq!(of(5), resumed);
    }

    #[test]
    fn a_summary_that_is_damaged_is_named_on_the_page() {
        let schema = json!({ "version": 1, "task": "a task", "samples": "rows", "metrics": [],
                             "criterion": "test-loss", "curves": [] });
        let run = Run {
            name: "a run".to_owned(),
            schema: serde_json::from_value(schema).expect("a schema"),
            metrics: Vec::new(),
            summary: Some(Err("`summary.json` is damaged".to_owned())),
            quantized: None,
            layers: None,
            pictures: Vec::new(),
            contributions: None,
            texts: Vec::new(),
        };
        let page = page(&run).expect("a page");
        let expected = "<p>How the run ended is not known: `summary.json` is damaged.</p>";
        assert!(page.contains(expected), "{page}");
    }

    #[test]
    fn long_curves_are_thinned_to_means() {
        let points: Vec<(f64, f64)> = (0..4000).map(|i| (f64::from(i), 1.0)).collect();
        let thin = thinned(points);
        assert!(thin.len() <= MOST_POINTS);
        assert_eq!(thin[0], (1.0, 1.0));
    }
}
