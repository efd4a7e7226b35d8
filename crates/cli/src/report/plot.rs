//! Curves, points and bars as SVG plots.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::chart::ChartContext;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, Circle, Color, IntoDrawingArea, IntoFont, LineSeries, RGBColor,
    Ranged, Rectangle, SVGBackend,
};

use super::log_axis::LogAxis;
use crate::terminal::visible;

/// A line of a plot.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The unit of the horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
}

/// A color-blind safe palette (Okabe and Ito 2008).
pub(super) const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

/// Width and height of a plot, in pixels: three fit side by side on a wide page, and on a phone its
/// texts stay about as large.
const SIZE: (u32, u32) = (430, 210);

/// Larger numbers cannot be plotted: their differences overflow.
const MOST: f64 = 1e100;

/// The largest number of bars in a plot.
const MOST_BARS: usize = 600;

/// Curves with more points are drawn without markers.
const MOST_DOTS: usize = 40;

/// Draws curves with a line of colored names above them; empty without a finite point.
pub(crate) fn plot(title: &str, x_name: &str, scale: Scale, curves: &[Curve]) -> Result<String> {
    let is_drawn =
        |point: &&(f64, f64)| has_place(point) && (scale == Scale::Linear || point.0 > 0.0);
    let points = || curves.iter().flat_map(|curve| &curve.points).filter(is_drawn);
    if points().next().is_none() {
        return Ok(String::new());
    }
    let x = span(points().map(|point| point.0));
    let y = padded(span(points().map(|point| point.1)));
    let mut svg = String::new();
    let drawn = match scale {
        Scale::Linear => draw(&mut svg, title, x_name, (padded(x), y), curves),
        Scale::Logarithmic => {
            draw(&mut svg, title, x_name, (LogAxis::new(padded_factors(x)), y), curves)
        }
    };
    drawn.map_err(|error| anyhow!("drawing `{title}`: {error}"))?;
    let names = key(curves, is_drawn);
    Ok(format!("<figure>\n<p class=\"key\">{names}</p>\n{svg}\n</figure>\n"))
}

/// Draws points, with a line through equal coordinates if asked; empty without a finite point.
pub(super) fn scatter(
    title: &str,
    (x_name, y_name): (&str, &str),
    points: &[(f64, f64)],
    has_diagonal: bool,
) -> Result<String> {
    let finite = || points.iter().filter(|point| has_place(point));
    if finite().next().is_none() {
        return Ok(String::new());
    }
    let (mut x, mut y) = (span(finite().map(|point| point.0)), span(finite().map(|point| point.1)));
    if has_diagonal {
        let both = x.start.min(y.start)..x.end.max(y.end);
        (x, y) = (both.clone(), both);
    }
    let (x, y) = (padded(x), padded(y));
    let ends = [(x.start, x.start), (x.end, x.end)];
    let mut svg = String::new();
    let drawn = framed(&mut svg, title, (x_name, y_name), (x, y), &axis_label, |chart| {
        if has_diagonal {
            let gray = RGBColor(120, 126, 134).stroke_width(1);
            chart.draw_series(LineSeries::new(ends, gray)).map_err(|error| error.to_string())?;
        }
        let style = COLORS[0].mix(0.45).filled();
        let dots = finite().map(|&point| Circle::new(point, 2, style));
        chart.draw_series(dots).map_err(|error| error.to_string())?;
        Ok(())
    });
    drawn.map_err(|error| anyhow!("drawing `{title}`: {error}"))?;
    let line = if has_diagonal { " <span>— where both are equal</span>" } else { "" };
    let RGBColor(red, green, blue) = COLORS[0];
    let dot =
        format!("<span style=\"color:#{red:02x}{green:02x}{blue:02x}\">●&#160;a sample</span>");
    Ok(format!("<figure>\n<p class=\"key\">{dot}{line}</p>\n{svg}\n</figure>\n"))
}

/// The names of the curves that have a point, in their colors.
fn key(curves: &[Curve], is_drawn: impl Fn(&&(f64, f64)) -> bool) -> String {
    let named = curves.iter().zip(COLORS.iter().cycle());
    let named = named.filter(|(curve, _)| curve.points.iter().any(|point| is_drawn(&point)));
    let names = named.map(|(curve, color)| {
        let RGBColor(red, green, blue) = color;
        format!(
            "<span style=\"color:#{red:02x}{green:02x}{blue:02x}\">●&#160;{}</span>",
            escape(&curve.name)
        )
    });
    names.collect::<Vec<_>>().join(" ")
}

/// Draws counts of equal intervals, `bins` the left end of the first and the width of each.
pub(super) fn bars(title: &str, x_name: &str, bins: [f64; 2], counts: &[u64]) -> Result<String> {
    let [start, width] = bins;
    let most = counts.iter().copied().max().unwrap_or(0) as f64;
    let end = start + width * counts.len() as f64;
    // A width that is lost in rounding would make the loop endless.
    let is_shown = width > 1e-9 * start.abs().max(end.abs());
    if most == 0.0 || !(has_place(&(start, end)) && is_shown) || counts.len() > MOST_BARS {
        return Ok(String::new());
    }
    let x = start..end;
    let mut svg = String::new();
    let drawn =
        framed(&mut svg, title, (x_name, "count"), (x, 0.0..1.05 * most), &axis_label, |chart| {
            let bar = |(at, &count): (usize, &u64)| {
                let left = start + width * at as f64;
                Rectangle::new(
                    [(left, 0.0), (left + width, count as f64)],
                    COLORS[0].mix(0.7).filled(),
                )
            };
            let bars = counts.iter().enumerate().map(bar);
            chart.draw_series(bars).map_err(|error| error.to_string())?;
            Ok(())
        });
    drawn.map_err(|error| anyhow!("drawing `{title}`: {error}"))?;
    Ok(format!("<figure>\n{svg}\n</figure>\n"))
}

/// A chart whose vertical axis is linear.
pub(super) type Chart<'a, X> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, RangedCoordf64>>;

/// Draws axes and calls `fill` for the content; an axis with an empty name has no label. `x_label`
/// formats values of the horizontal axis, given its range.
pub(super) fn framed<A>(
    svg: &mut String,
    title: &str,
    (x_name, y_name): (&str, &str),
    (x, y): (A, Range<f64>),
    x_label: &dyn Fn(f64, &Range<f64>) -> String,
    fill: impl FnOnce(&mut Chart<'_, A::CoordDescType>) -> Result<(), String>,
) -> Result<(), String>
where
    A: AsRangedCoord<Value = f64>,
    A::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let text = |error: &dyn std::fmt::Display| error.to_string();
    // Names of columns and classes; the backend escapes them for HTML only.
    let [title, x_name, y_name] = &[title, x_name, y_name].map(visible);
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .caption(&**title, ("sans-serif", title_size(title)).into_font())
        .margin(4)
        .margin_right(18)
        .x_label_area_size(32)
        .y_label_area_size(56)
        .build_cartesian_2d(x, y)
        .map_err(|error| text(&error))?;
    let (x_range, y_range) = (chart.x_range(), chart.y_range());
    let x_label = |value: &f64| visible(&x_label(*value, &x_range)).into_owned();
    let y_label = |value: &f64| axis_label(*value, &y_range);
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(&**x_name)
        .x_label_formatter(&x_label)
        .y_label_formatter(&y_label)
        .label_style(("sans-serif", 12).into_font())
        .light_line_style(RGBColor(255, 255, 255))
        .bold_line_style(RGBColor(225, 228, 232));
    if !y_name.is_empty() {
        mesh.y_desc(&**y_name);
    }
    mesh.draw().map_err(|error| text(&error))?;
    fill(&mut chart)?;
    area.present().map_err(|error| text(&error))
}

/// The size of a title's letters, whose mean width is half of it: smaller ones for a long title.
fn title_size(title: &str) -> f64 {
    let room = 2.0 * f64::from(SIZE.0) / title.chars().count().max(1) as f64;
    room.clamp(7.0, 14.0)
}

/// A value of an axis, without digits that are rounding errors.
pub(super) fn axis_label(value: f64, range: &Range<f64>) -> String {
    // Steps are added up to the value, so that zero becomes a difference of large numbers.
    if value.abs() < 1e-12 * range.start.abs().max(range.end.abs()) {
        return "0".to_owned();
    }
    if value != 0.0 && !(1e-6..1e7).contains(&value.abs()) {
        return format!("{value:e}");
    }
    format!("{}", (value * 1e9).round() / 1e9)
}

/// Draws curves, each in its color.
fn draw<A>(
    svg: &mut String,
    title: &str,
    x_name: &str,
    spans: (A, Range<f64>),
    curves: &[Curve],
) -> Result<(), String>
where
    A: AsRangedCoord<Value = f64>,
    A::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    framed(svg, title, (x_name, ""), spans, &axis_label, |chart| {
        for (curve, color) in curves.iter().zip(COLORS.iter().cycle()) {
            let points = curve.points.iter().copied().filter(has_place);
            // A single point has no line.
            let dot = if curve.points.len() <= MOST_DOTS { 3 } else { 0 };
            let style = color.stroke_width(2).filled();
            let line = LineSeries::new(points, style).point_size(dot);
            chart.draw_series(line).map_err(|error| error.to_string())?;
        }
        Ok(())
    })
}

/// Text as HTML shows it, within an element or a quoted attribute, with control characters and
/// bidirectional marks as Rust writes them.
pub(super) fn escape(text: &str) -> String {
    let text = visible(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

pub(super) fn has_place((x, y): &(f64, f64)) -> bool {
    x.abs() <= MOST && y.abs() <= MOST
}

pub(super) fn span(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    low..high
}

/// Adds a margin on both sides; a single value, or values that are equal up to rounding, are in the
/// middle between 0 and twice the value.
pub(super) fn padded(range: Range<f64>) -> Range<f64> {
    let size = range.start.abs().max(range.end.abs());
    let room = match range.end - range.start {
        width if width > 1e-9 * size => 0.03 * width,
        _ if size > 1.0 / MOST => size,
        _ => 0.1,
    };
    range.start - room..range.end + room
}

/// The same of positive values on a logarithmic axis, whose labels begin at a power of ten: one that
/// is near is included.
pub(super) fn padded_factors(range: Range<f64>) -> Range<f64> {
    const ROOM: f64 = 1.15;
    let power = 10_f64.powf(range.start.log10().floor());
    let start = if range.start < 3.0 * power { power } else { range.start };
    start / ROOM..range.end * ROOM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_has_room_and_a_power_of_ten_that_is_near() {
        for (range, power, is_included) in [
            (2.0..16.0, 1.0, true),
            (0.001..0.02, 0.001, true),
            (4.0..64.0, 1.0, false),
            (5.0..5.0, 1.0, false),
        ] {
            let padded = padded_factors(range.clone());
            assert!(padded.start < range.start && padded.end > range.end, "{padded:?}");
            assert_eq!(padded.start < power, is_included, "{padded:?}");
        }
    }

    #[test]
    fn the_axis_of_equal_values_begins_at_zero() {
        for (range, expected) in [
            (0.001..0.001, 0.0..0.002),
            (600.0..600.0, 0.0..1200.0),
            (-0.5..-0.5, -1.0..0.0),
            (0.0..0.0, -0.1..0.1),
            (1e-310..1e-310, -0.1..0.1),
            (0.0..1.0, -0.03..1.03),
        ] {
            assert_eq!(padded(range.clone()), expected, "{range:?}");
        }
        assert_eq!(axis_label(0.001, &padded(0.001..0.001)), "0.001");
    }

    fn curve(points: &[(f64, f64)]) -> [Curve; 2] {
        let named = |name: &str, points| Curve { name: name.to_owned(), points };
        [named("a <b>", points.to_vec()), named("c", Vec::new())]
    }

    #[test]
    fn labels_of_axes_have_no_rounding_errors() {
        let label = |value| axis_label(value, &(-1.0..600.0));
        assert_eq!(label(600.0), "600");
        assert_eq!(label(0.1 + 0.2), "0.3");
        assert_eq!(label(-0.000_01), "-0.00001");
        assert_eq!(label(0.0), "0");
        assert_eq!(label(-2.220_446_049_250_313e-16), "0");
        assert_eq!(axis_label(1e-9, &(0.0..1e-8)), "1e-9");
        assert_eq!(axis_label(2.5e8, &(0.0..1e9)), "2.5e8");
    }

    #[test]
    fn curves_become_an_svg_with_escaped_names() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let points = [(1.0, 0.5), (2.0, f64::NAN), (3.0, 0.25)];
            let svg = plot("loss", "step", scale, &curve(&points)).expect("drawn");
            assert!(svg.contains("<svg") && svg.contains("polyline"), "{svg}");
            assert!(svg.contains("●&#160;a &lt;b&gt;") && !svg.contains("<b>"), "{svg}");
            assert!(!svg.contains("●&#160;c"), "a curve without a point is named: {svg}");
            let one = plot("loss", "step", scale, &curve(&points)[..1]).expect("drawn");
            assert!(one.contains("●&#160;a &lt;b&gt;"), "{one}");
        }
    }

    #[test]
    fn one_point_is_drawn_and_none_gives_nothing() {
        let one = plot("loss", "step", Scale::Linear, &curve(&[(1.0, 0.5)])).expect("drawn");
        assert!(one.contains("<circle"), "{one}");
        let none = plot("loss", "step", Scale::Linear, &curve(&[(1.0, f64::NAN)])).expect("none");
        assert_eq!(none, "");
    }
}
