//! A saved run as one self-contained HTML page.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use plotters::prelude::{
    ChartBuilder, Circle, Color, IntoDrawingArea, IntoFont, IntoSegmentedCoord, PathElement,
    RGBColor, SVGBackend, SegmentValue,
};

use crate::measure::{Measured, Outcome};
use crate::record::{Record, date};
use crate::strategy::Role;
use crate::table;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2330; background: #fff; }
pre { background: #f4f5f7; padding: .75rem 1rem; overflow-x: auto; font-size: 13px; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .2rem; }
p { margin: .2rem 0 .6rem; } svg { max-width: 100%; height: auto; }
nav a { margin-right: 1rem; } .key span { margin-right: 1.2rem; }";

const OURS: RGBColor = RGBColor(27, 94, 160);
const PEER: RGBColor = RGBColor(190, 110, 20);

/// The page of a run.
///
/// # Errors
/// If a plot cannot be drawn.
pub(crate) fn page(record: &Record) -> Result<String> {
    let day = date(record.taken_unix_s);
    let mut body = format!(
        "<h1>Benchmarks of {day}</h1>\n<pre>{}</pre>\n\
         <p>Every strategy was proved on a small shape before it was timed. \
         A dot is a sample, the bar its median; all strategies of an entry took turns.</p>\n\
         <p class=\"key\"><span style=\"color:{}\">● ours</span>\
         <span style=\"color:{}\">● peers</span></p>\n",
        escape(table::machine(&record.machine).trim_end()),
        css(OURS),
        css(PEER),
    );
    for entry in &record.entries {
        let _ = write!(
            body,
            "<h2 id=\"{0}\">{0}</h2>\n<p>{1}</p>\n{2}\n<pre>{3}</pre>\n",
            escape(&entry.id),
            escape(&entry.about),
            plot(entry, record.machine.fingerprint.threads)?,
            escape(without_head(&table::entry(entry, &record.machine))),
        );
    }
    let _ = write!(body, "<pre>{}</pre>", escape(table::programs(&record.entries).trim()));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Updraft benchmarks, {day}</title>\n<style>\n{STYLE}\n</style>\n</head>\n\
         <body>\n{body}\n</body>\n</html>\n"
    ))
}

/// An entry's table without its name and sentence, which the page shows above.
fn without_head(table: &str) -> &str {
    table.trim_start_matches('\n').splitn(3, '\n').nth(2).unwrap_or_default().trim_end()
}

/// The samples of every timed strategy on one axis from zero.
fn plot(entry: &Measured, threads: usize) -> Result<String> {
    let timed: Vec<(&Outcome, Vec<f64>, f64)> = entry
        .outcomes
        .iter()
        .filter_map(|outcome| {
            let timing = outcome.timing.as_ref()?;
            let median = timing.summary(threads)?.median * 1e-6;
            let samples = if threads == 1 { &timing.cpu_ns } else { &timing.wall_ns };
            Some((outcome, samples.iter().map(|ns| ns * 1e-6).collect(), median))
        })
        .collect();
    let most = timed.iter().flat_map(|(_, samples, _)| samples).fold(0.0, |a: f64, b| a.max(*b));
    if timed.is_empty() {
        return Ok(String::new());
    }
    let failed = |error: &dyn std::fmt::Display| anyhow!("drawing `{}`: {error}", entry.id);
    let mut svg = String::new();
    {
        let height = 50 + 30 * u32::try_from(timed.len())?;
        let area = SVGBackend::with_string(&mut svg, (760, height)).into_drawing_area();
        let names: Vec<&str> =
            timed.iter().rev().map(|(outcome, ..)| outcome.strategy.as_str()).collect();
        let mut chart = ChartBuilder::on(&area)
            .margin(6)
            .margin_right(36)
            .x_label_area_size(34)
            .y_label_area_size(170)
            .build_cartesian_2d(0.0..most * 1.05, (0..names.len()).into_segmented())
            .map_err(|error| failed(&error))?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .x_desc("ms")
            .x_labels(8)
            .y_labels(names.len())
            .y_label_formatter(&|value| match value {
                SegmentValue::CenterOf(index) => names.get(*index).copied().unwrap_or("").into(),
                _ => String::new(),
            })
            .label_style(("sans-serif", 13).into_font())
            .light_line_style(RGBColor(255, 255, 255))
            .bold_line_style(RGBColor(225, 228, 232))
            .draw()
            .map_err(|error| failed(&error))?;
        for (row, (outcome, samples, median)) in timed.iter().rev().enumerate() {
            let color = if outcome.role == Role::Peer { PEER } else { OURS };
            let dots = samples.iter().map(|ms| {
                Circle::new((*ms, SegmentValue::CenterOf(row)), 3, color.mix(0.4).filled())
            });
            chart.draw_series(dots).map_err(|error| failed(&error))?;
            let bar = PathElement::new(
                vec![(*median, SegmentValue::Exact(row)), (*median, SegmentValue::Exact(row + 1))],
                color.stroke_width(2),
            );
            chart.draw_series([bar]).map_err(|error| failed(&error))?;
        }
        area.present().map_err(|error| failed(&error))?;
    }
    Ok(svg)
}

fn css(color: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", color.0, color.1, color.2)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn a_page_shows_every_strategy_and_needs_nothing_else() {
        let strategies = [
            ("updraft", Role::Dispatched, Some(2e6)),
            ("pytorch", Role::Peer, Some(3e6)),
            ("candle", Role::Peer, None),
        ];
        let page = page(&synthetic::run("a <CPU>", &strategies)).expect("drawn");
        for part in ["a &lt;CPU&gt;", "updraft", "pytorch", "candle", "it &lt;failed&gt;", "<svg"] {
            assert!(page.contains(part), "`{part}` is not in {page}");
        }
        assert_eq!(page.matches("<circle").count(), 2, "a dot for every sample: {page}");
        let without_names = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for foreign in ["<script", "http:", "https:", "src=", "@import", "a <CPU>"] {
            assert!(!without_names.contains(foreign), "`{foreign}` is in {page}");
        }
    }

    #[test]
    fn an_entry_without_a_timing_has_no_plot() {
        let page = page(&synthetic::run("a CPU", &[("candle", Role::Peer, None)])).expect("made");
        assert!(!page.contains("<svg") && page.contains("candle"));
    }
}
