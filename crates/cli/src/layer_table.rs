//! The slowest layers of traced steps.

use anyhow::Result;
use updraft_run::{LayerTime, LayerTimes, RunFolder};

use crate::performance::{number, share};
use crate::progress::Display;
use crate::wrap::{counted, hanging};

/// The number of layers in the table.
pub(crate) const MOST: usize = 10;

/// Prints the table that a trace wrote into a run folder.
pub(crate) fn show(folder: &RunFolder, file: &str, step: &str, display: &Display) -> Result<()> {
    let times: LayerTimes = folder.read_json(file)?;
    lines(&times, step).iter().for_each(|line| display.line(line));
    Ok(())
}

/// The headings of the numbers of a layer; the times are in milliseconds.
pub(crate) const HEADINGS: [&str; 6] =
    ["forward", "backward", "total", "share", "GFLOP/s", "of peak"];

/// The reason for a table without layers.
pub(crate) const NONE: &str =
    "no layer was timed: times are recorded of Updraft's layers on CPUs (device `flex`)";

/// The columns of the names of layers: the numbers take the other 47 of eighty.
const MOST_OF_NAME: usize = 33;

/// The end of a layer's name, if it is too long for its column.
fn shortened(name: &str) -> String {
    match name.chars().count() {
        0..=MOST_OF_NAME => name.to_owned(),
        length => {
            let end: String = name.chars().skip(length - (MOST_OF_NAME - 1)).collect();
            format!("…{end}")
        }
    }
}

/// The table, at most eighty columns wide.
fn lines(times: &LayerTimes, step: &str) -> Vec<String> {
    let ms = 1e-3 * times.total_us() as f64 / times.steps.max(1) as f64;
    let peak = times.peak_gflop_per_s;
    let peak = peak.map_or_else(String::new, |peak| format!("; peak {peak:.0} GFLOP/s"));
    let steps = match (times.steps, step) {
        (count, "batch") if count != 1 => format!("{count} batches"),
        (count, _) => counted(count, step),
    };
    let passes = match times.backward_us {
        0 => "forward",
        _ => "forward and backward",
    };
    let title = format!("slowest layers: {steps}, {passes} {ms:.2} ms each{peak}");
    let mut lines = vec![hanging("", &title)];
    if times.layers.is_empty() {
        lines.push(hanging("", NONE));
        return lines;
    }
    let rows = rows(times);
    let row = |name: &str, [forward, backward, total, share, rate, of_peak]: [&str; 6]| {
        let line = format!(
            "{name:MOST_OF_NAME$}{forward:>8}{backward:>9}{total:>8}{share:>6}{rate:>8}{of_peak:>8}"
        );
        line.trim_end().to_owned()
    };
    lines.push(row(&format!("milliseconds a {step}"), HEADINGS));
    let of_layer = |(name, cells): &(String, [String; 6])| {
        row(&shortened(name), cells.each_ref().map(|it| &**it))
    };
    lines.extend(rows.iter().map(of_layer));
    lines.extend(verdict(times).map(|verdict| hanging("verdict  ", &verdict)));
    lines
}

/// The share of the peak from which on products take the time of a layer: kernels of layers that
/// reuse what they load reach half of it and more.
const BOUND_BY_PRODUCTS: f64 = 0.4;

/// What binds the slowest layer, and the page that helps; `None` without a layer or a peak.
pub(crate) fn verdict(times: &LayerTimes) -> Option<String> {
    let (slowest, peak) = (times.layers.first()?, times.peak_gflop_per_s?);
    let of_all = share(slowest.total_us() / times.total_us().max(1) as f64);
    let of_peak = times.gflop_per_s(slowest).map(|rate| rate / peak);
    let is_plain = slowest.plain_calls > 0;
    let cause = match of_peak {
        _ if is_plain && of_peak.is_none_or(|it| it < BOUND_BY_PRODUCTS) => {
            let part = match slowest.plain_calls == slowest.calls {
                true => "it".to_owned(),
                false => format!("{} of its {} runs", slowest.plain_calls, slowest.calls),
            };
            format!(
                "burn's operations compute {part}, wholly or in part, in place of a kernel \
                 (docs/guide/options.md)"
            )
        }
        None => "has no products: the bandwidth of memory binds it (docs/guide/mixed-precision.md)"
            .to_owned(),
        Some(of_peak) if of_peak >= BOUND_BY_PRODUCTS => format!(
            "multiplies at {} of the peak: products bind it (docs/guide/mixed-precision.md)",
            share(of_peak)
        ),
        Some(of_peak) => format!(
            "multiplies at {} of the peak by a kernel: not products bind it, but memory, or few \
             channels or samples (docs/guide/options.md)",
            share(of_peak)
        ),
    };
    Some(format!("`{}` takes {of_all} of the time and {cause}", slowest.layer))
}

/// The slowest layers and everything else: a name, and milliseconds a step of the forward and the
/// backward pass and both, the share of the passes of a step, the rate, and its share of the peak.
pub(crate) fn rows(times: &LayerTimes) -> Vec<(String, [String; 6])> {
    let none = || "-".to_owned();
    let ms = |us: f64| number(1e-3 * us / times.steps.max(1) as f64);
    let share_of_all = |us: f64| share(us / times.total_us().max(1) as f64);
    let shown = &times.layers[..times.layers.len().min(MOST)];
    let of_layer = |layer: &LayerTime| {
        let rate = times.gflop_per_s(layer);
        let of_peak = rate.zip(times.peak_gflop_per_s).map(|(rate, peak)| share(rate / peak));
        let backward = (layer.backward_us > 0.0).then(|| ms(layer.backward_us));
        let cells = [
            ms(layer.forward_us),
            backward.unwrap_or_else(none),
            ms(layer.total_us()),
            share_of_all(layer.total_us()),
            rate.map_or_else(none, number),
            of_peak.unwrap_or_else(none),
        ];
        (layer.layer.clone(), cells)
    };
    let mut rows: Vec<_> = shown.iter().map(of_layer).collect();
    let left = |all: u64, of: fn(&LayerTime) -> f64| {
        (all as f64 - shown.iter().map(of).sum::<f64>()).max(0.0)
    };
    let name = match times.layers.len() - shown.len() {
        0 => "everything else".to_owned(),
        rest => format!("{}, the rest", counted(rest as u64, "layer")),
    };
    let total = left(times.total_us(), LayerTime::total_us);
    let backward =
        (times.backward_us > 0).then(|| ms(left(times.backward_us, |it| it.backward_us)));
    let cells = [
        ms(left(times.forward_us, |it| it.forward_us)),
        backward.unwrap_or_else(none),
        ms(total),
        share_of_all(total),
        String::new(),
        String::new(),
    ];
    rows.push((name, cells));
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn times(layers: usize, backward_us: f64) -> LayerTimes {
        let layer = |at: usize| {
            json!({ "layer": format!("stage.{at}.conv"), "kind": "convolution", "calls": 2, "plain_calls": 0,
                    "forward_us": 1000.0, "backward_us": backward_us, "operations": 150_000_000 })
        };
        let times = json!({
            "steps": 2, "forward_us": 20_000, "backward_us": (20.0 * backward_us) as u64,
            "peak_gflop_per_s": 200.0, "layers": (0..layers).map(layer).collect::<Vec<_>>(),
        });
        serde_json::from_value(times).expect("layer times")
    }

    #[test]
    fn a_layer_has_both_times_its_rate_and_its_share_of_the_peak() {
        let times = times(12, 2000.0);
        let lines = lines(&times, "step");
        let text = lines.join("\n");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(
            lines[0],
            "slowest layers: 2 steps, forward and backward 30.00 ms each; peak 200 GFLOP/s"
        );
        assert!(lines.last().is_some_and(|line| line.starts_with("verdict  `stage.0.conv` takes")));
        // 150 MFLOP in 3 ms are 50 GFLOP/s; 3 ms of 60 ms are 5 %.
        let cells = lines[2].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(cells, "stage.0.conv 0.50 1.00 1.50 5.0 % 50.00 25 %", "{text}");
        assert_eq!(lines.len(), 2 + MOST + 2, "{text}");
        // Two of the layers are not shown: 20 ms less 10 layers of 1 ms, in 2 steps.
        let rest = lines[12].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(rest, "2 layers, the rest 5.00 10.00 15.00 50 %", "{text}");
    }

    #[test]
    fn the_verdict_names_what_binds_the_slowest_layer_and_the_page_that_helps() {
        // 5 % of 60 ms, at a quarter of the peak of 200 GFLOP/s.
        let mut times = times(2, 2000.0);
        let expected = "`stage.0.conv` takes 5.0 % of the time and multiplies at 25 % of the peak by \
                        a kernel: not products bind it, but memory, or few channels or samples \
                        (docs/guide/options.md)";
        assert_eq!(verdict(&times).as_deref(), Some(expected));
        times.layers[0].plain_calls = 1;
        let expected = "`stage.0.conv` takes 5.0 % of the time and burn's operations compute 1 of \
                        its 2 runs, wholly or in part, in place of a kernel (docs/guide/options.md)";
        assert_eq!(verdict(&times).as_deref(), Some(expected));
        times.layers[0].plain_calls = 2;
        assert!(verdict(&times).is_some_and(|text| text.contains("burn's operations compute it,")));
        times.layers[0].operations = 0;
        assert!(verdict(&times).is_some_and(|text| text.contains("burn's operations compute it,")));
        times.layers[0].operations = 150_000_000;
        times.layers[0].plain_calls = 0;
        times.peak_gflop_per_s = Some(100.0);
        assert!(verdict(&times).is_some_and(|text| text.contains("50 % of the peak: products")));
        times.layers[0].operations = 0;
        assert!(verdict(&times).is_some_and(|text| text.contains("has no products")));
        times.peak_gflop_per_s = None;
        assert_eq!(verdict(&times), None);
    }

    #[test]
    fn a_layer_without_products_or_gradients_has_no_number_for_them() {
        let mut times = times(1, 0.0);
        times.layers[0].operations = 0;
        let lines = lines(&times, "batch");
        assert!(lines[0].starts_with("slowest layers: 2 batches, forward 10.00 ms each"));
        let cells = lines[2].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(cells, "stage.0.conv 0.50 - 0.50 5.0 % - -");
        let rest = lines[3].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(rest, "everything else 9.50 - 9.50 95 %");
    }

    #[test]
    fn a_long_name_keeps_its_end_and_the_table_eighty_columns() {
        let mut times = times(3, 2000.0);
        times.layers[0].layer = format!("{}.conv", "a".repeat(28));
        times.layers[1].layer = format!("{}.conv", "b".repeat(29));
        let lines = lines(&times, "step");
        let mut printed = lines.iter().flat_map(|line| line.lines());
        assert!(printed.all(|line| line.chars().count() <= 80), "{lines:?}");
        let headings = "milliseconds a step forward backward total share GFLOP/s of peak";
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>().join(" "), headings);
        assert_eq!(lines[1].chars().count(), 80);
        assert!(lines[2].starts_with(&format!("{}.conv    0.50", "a".repeat(28))), "{}", lines[2]);
        let cut = format!("…{}.conv    0.50", "b".repeat(27));
        assert!(lines[3].starts_with(&cut), "{}", lines[3]);
    }

    #[test]
    fn a_trace_without_layers_has_the_reason() {
        let lines = lines(&times(0, 0.0), "batch");
        assert!(lines[1].starts_with("no layer was timed: "), "{lines:?}");
    }
}
