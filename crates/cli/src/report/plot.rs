//! Curves as an SVG plot.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::{
    ChartBuilder, Color, IntoDrawingArea, IntoFont, IntoLogRange, LineSeries, RGBColor, Ranged,
    SVGBackend,
};

/// A line of a plot.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// How the horizontal axis counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
}

/// Colors that stay apart for people who see few of them (Okabe and Ito 2008).
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

/// Curves of more points are lines alone.
const MOST_DOTS: usize = 40;

/// Draws curves with a line of colored names above them; empty without a finite point.
pub(crate) fn plot(title: &str, x_name: &str, scale: Scale, curves: &[Curve]) -> Result<String> {
    let is_drawn = |(x, y): &&(f64, f64)| {
        x.is_finite() && y.is_finite() && (scale == Scale::Linear || *x > 0.0)
    };
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
            let x = x.start..x.end.max(x.start * 1.01);
            draw(&mut svg, title, x_name, (x.log_scale(), y), curves)
        }
    };
    drawn.map_err(|error| anyhow!("drawing `{title}`: {error}"))?;
    let names = curves.iter().zip(COLORS.iter().cycle()).map(|(curve, color)| {
        let RGBColor(red, green, blue) = color;
        format!(
            "<span style=\"color:#{red:02x}{green:02x}{blue:02x}\">● {}</span>",
            escape(&curve.name)
        )
    });
    Ok(format!("<p class=\"key\">{}</p>\n{svg}", names.collect::<Vec<_>>().join(" ")))
}

/// Text as HTML shows it.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn draw<X>(
    svg: &mut String,
    title: &str,
    x_name: &str,
    (x, y): (X, Range<f64>),
    curves: &[Curve],
) -> Result<(), String>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let area = SVGBackend::with_string(svg, (760, 240)).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 15).into_font())
        .margin(6)
        .margin_right(24)
        .x_label_area_size(34)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)
        .map_err(|error| text(&error))?;
    chart
        .configure_mesh()
        .x_desc(x_name)
        .label_style(("sans-serif", 13).into_font())
        .light_line_style(RGBColor(255, 255, 255))
        .bold_line_style(RGBColor(225, 228, 232))
        .draw()
        .map_err(|error| text(&error))?;
    for (curve, color) in curves.iter().zip(COLORS.iter().cycle()) {
        let points = curve.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite());
        // A single point has no line.
        let dot = if curve.points.len() <= MOST_DOTS { 3 } else { 0 };
        let style = color.stroke_width(2).filled();
        chart
            .draw_series(LineSeries::new(points, style).point_size(dot))
            .map_err(|error| text(&error))?;
    }
    area.present().map_err(|error| text(&error))?;
    Ok(())
}

fn span(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    low..high
}

/// Some room on both sides; a single value gets some too.
fn padded(range: Range<f64>) -> Range<f64> {
    let room = match range.end - range.start {
        width if width > 0.0 => 0.03 * width,
        _ => range.start.abs().max(1.0) * 0.1,
    };
    range.start - room..range.end + room
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> [Curve; 1] {
        [Curve { name: "a <b>".to_owned(), points: points.to_vec() }]
    }

    #[test]
    fn curves_become_an_svg_with_escaped_names() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let points = [(1.0, 0.5), (2.0, f64::NAN), (3.0, 0.25)];
            let svg = plot("loss", "step", scale, &curve(&points)).expect("drawn");
            assert!(svg.contains("<svg") && svg.contains("polyline"), "{svg}");
            assert!(svg.contains("a &lt;b&gt;") && !svg.contains("<b>"), "{svg}");
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
