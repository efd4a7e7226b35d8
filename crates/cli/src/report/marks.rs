//! Points of several series as an SVG plot, each series with its mark.

use anyhow::{Result, anyhow};
use plotters::prelude::{Circle, Color, LineSeries, RGBColor, Ranged};

use super::category_axis::{CategoryAxis, label};
use super::integer_axis::IntegerAxis;
use super::log_axis::LogAxis;
use super::plot::{
    COLORS, Chart, axis_label, escape, framed, has_place, padded, padded_factors, span,
};

/// The color of rings.
const GRAY: RGBColor = RGBColor(120, 126, 134);

/// How the points of a series are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Translucent dots.
    Dot,
    /// Gray rings.
    Ring,
    /// Small dots with a line through them.
    Line,
    /// Small dots in the color of the line.
    Point,
}

impl Mark {
    const fn color(self) -> RGBColor {
        match self {
            Self::Dot => COLORS[0],
            Self::Ring => GRAY,
            Self::Line | Self::Point => COLORS[1],
        }
    }

    /// The mark in the line of names.
    const fn symbol(self) -> char {
        match self {
            Self::Dot | Self::Line | Self::Point => '●',
            Self::Ring => '○',
        }
    }
}

/// Points with a name.
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) mark: Mark,
    pub(super) points: Vec<(f64, f64)>,
}

/// The horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis<'a> {
    Linear,
    /// Whole numbers.
    Integers,
    Logarithmic,
    /// Categories by their numbers from 0.
    Categories(&'a [String]),
}

/// Draws series with a line of their names above them; empty without a finite point.
pub(super) fn marks(
    title: &str,
    names: (&str, &str),
    axis: Axis<'_>,
    series: &[Series],
) -> Result<String> {
    let is_drawn =
        |point: &&(f64, f64)| has_place(point) && (axis != Axis::Logarithmic || point.0 > 0.0);
    let points = || series.iter().flat_map(|series| &series.points).filter(is_drawn);
    if points().next().is_none() {
        return Ok(String::new());
    }
    let x = span(points().map(|point| point.0));
    let y = padded(span(points().map(|point| point.1)));
    let mut svg = String::new();
    let drawn = match axis {
        Axis::Linear => {
            framed(&mut svg, title, names, (padded(x), y), &axis_label, |it| draw(it, series))
        }
        Axis::Integers => {
            let x = IntegerAxis::new(padded(x));
            framed(&mut svg, title, names, (x, y), &axis_label, |it| draw(it, series))
        }
        Axis::Logarithmic => {
            let x = LogAxis::new(padded_factors(x));
            framed(&mut svg, title, names, (x, y), &axis_label, |it| draw(it, series))
        }
        Axis::Categories(categories) => {
            let x = CategoryAxis::new(categories.len());
            let named = |place, _: &_| label(categories, place);
            framed(&mut svg, title, names, (x, y), &named, |it| draw(it, series))
        }
    };
    drawn.map_err(|error| anyhow!("drawing `{title}`: {error}"))?;
    let key = series.iter().filter(|series| series.points.iter().any(|point| is_drawn(&point)));
    let key = key.map(|Series { name, mark, .. }| {
        let RGBColor(red, green, blue) = mark.color();
        let (symbol, name) = (mark.symbol(), escape(name));
        format!("<span style=\"color:#{red:02x}{green:02x}{blue:02x}\">{symbol}&#160;{name}</span>")
    });
    let key = key.collect::<Vec<_>>().join(" ");
    Ok(format!("<figure>\n<p class=\"key\">{key}</p>\n{svg}\n</figure>\n"))
}

fn draw<X: Ranged<ValueType = f64>>(
    chart: &mut Chart<'_, X>,
    series: &[Series],
) -> Result<(), String> {
    for Series { mark, points, .. } in series {
        let points = || points.iter().copied().filter(has_place);
        let color = mark.color();
        if *mark == Mark::Line {
            let line = LineSeries::new(points(), color.stroke_width(1));
            chart.draw_series(line).map_err(|error| error.to_string())?;
        }
        let (size, style) = match mark {
            Mark::Dot => (3, color.mix(0.5).filled()),
            Mark::Ring => (3, color.stroke_width(1)),
            Mark::Line | Mark::Point => (2, color.filled()),
        };
        let dots = points().map(|point| Circle::new(point, size, style));
        chart.draw_series(dots).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_hollow_and_categories_have_their_names() {
        let series =
            |name, mark, points: &[(f64, f64)]| Series { name, mark, points: points.to_vec() };
        let series = [
            series("kept", Mark::Dot, &[(0.0, 0.5), (1.0, 0.7)]),
            series("a <ring>", Mark::Ring, &[(1.0, 0.9)]),
            series("absent", Mark::Line, &[]),
        ];
        let names = ["mlp", "kan"].map(str::to_owned);
        let svg =
            marks("loss", ("kind", "loss"), Axis::Categories(&names), &series).expect("drawn");
        assert!(svg.contains(">\nmlp\n") && svg.contains(">\nkan\n"), "{svg}");
        assert!(svg.contains("●&#160;kept") && svg.contains("○&#160;a &lt;ring&gt;"), "{svg}");
        assert!(!svg.contains("absent"), "{svg}");
        let circles: Vec<&str> = svg.lines().filter(|line| line.starts_with("<circle")).collect();
        let is_hollow = |circle: &&&str| circle.contains("fill=\"none\"");
        assert_eq!((circles.len(), circles.iter().filter(is_hollow).count()), (3, 1), "{svg}");
    }

    #[test]
    fn an_axis_of_integers_has_no_fractions() {
        let points = vec![(1.0, 0.5), (2.0, 0.7)];
        let series = [Series { name: "a", mark: Mark::Dot, points }];
        let of = |axis| marks("loss", ("layers", "loss"), axis, &series).expect("drawn");
        assert!(of(Axis::Linear).contains(">\n1.5\n"));
        let svg = of(Axis::Integers);
        assert!(svg.contains(">\n1\n") && svg.contains(">\n2\n") && !svg.contains(">\n1.5\n"));
    }

    #[test]
    fn without_a_finite_point_nothing_is_drawn() {
        let series = [Series { name: "a", mark: Mark::Dot, points: vec![(0.0, f64::NAN)] }];
        let svg = marks("loss", ("x", "loss"), Axis::Logarithmic, &series).expect("none");
        assert_eq!(svg, "");
    }
}
