//! The pictures of a task in a report: matrices, images, points, histograms.

use std::fmt::Write;

use anyhow::Result;
use updraft_run::{Bar, Picture, Tile};

use super::confusion::confusion;
use super::plot::{Curve, Scale, bars, escape, plot, scatter};

/// The pictures of a run, one figure each.
pub(super) fn pictures(pictures: &[Picture]) -> Result<String> {
    let mut body = String::new();
    for picture in pictures {
        let figure = match picture {
            Picture::Confusion { title, classes, counts } => {
                confusion(title.as_deref(), classes, counts)
            }
            Picture::Tiles { title, tiles, per_row } => images(title, tiles, *per_row),
            Picture::Points { title, x_name, y_name, points, has_diagonal } => {
                let points: Vec<(f64, f64)> = points.iter().map(|[x, y]| (*x, *y)).collect();
                scatter(title, (x_name, y_name), &points, *has_diagonal)?
            }
            Picture::Lines { title, x_name, lines } => {
                let curve = |line: &updraft_run::Line| Curve {
                    name: line.name.clone(),
                    points: line.points.iter().map(|[x, y]| (*x, *y)).collect(),
                };
                let curves: Vec<Curve> = lines.iter().map(curve).collect();
                plot(title, x_name, Scale::Linear, &curves)?
            }
            Picture::Bars { title, value_name, bars } => named_bars(title, value_name, bars),
            Picture::Histogram { title, x_name, bins, counts } => {
                bars(title, x_name, *bins, counts)?
            }
            _ => continue,
        };
        body.push_str(&figure);
    }
    Ok(body)
}

/// A table of names, values, and bars whose length is the share of the longest.
fn named_bars(title: &str, value_name: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value.abs()).fold(0.0_f64, f64::max);
    let mut table = format!(
        "<figure>\n<figcaption>{}</figcaption>\n<div class=\"scroll\"><table>\n\
         <tr><th></th><th class=\"number\">{}</th><th></th></tr>\n",
        escape(title),
        escape(value_name)
    );
    for Bar { name, value } in bars {
        let share = if most > 0.0 { 100.0 * value.abs() / most } else { 0.0 };
        let color = if *value < 0.0 { "213,94,0" } else { "0,114,178" };
        let _ = writeln!(
            table,
            "<tr><th>{}</th><td class=\"number\">{value:.4}</td><td class=\"length\">\
             <span class=\"bar\" style=\"width:{share:.1}%;background:rgb({color})\"></span></td></tr>",
            escape(name)
        );
    }
    table.push_str("</table></div>\n</figure>\n");
    table
}

fn images(title: &str, tiles: &[Tile], per_row: Option<usize>) -> String {
    let mut body = format!(
        "<figure class=\"wide\">\n<figcaption>{}</figcaption>\n<div class=\"tiles\">\n",
        escape(title)
    );
    let per_row = per_row.unwrap_or(tiles.len()).max(1);
    for (at, row) in tiles.chunks(per_row).enumerate() {
        if at > 0 {
            body.push_str("</div>\n<div class=\"tiles\">\n");
        }
        for Tile { height, width, png, caption } in row {
            let (png, caption) = (escape(png), escape(caption));
            let _ = writeln!(
                body,
                "<div><img src=\"data:image/png;base64,{png}\" alt=\"{caption}\" width=\"96\" \
                 height=\"{:.0}\"><span>{caption}</span></div>",
                96.0 * *height as f64 / (*width).max(1) as f64,
            );
        }
    }
    body.push_str("</div>\n</figure>\n");
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_names_its_classes_and_shares_and_images_hold_themselves() {
        let classes = vec!["a<".to_owned(), "b".to_owned()];
        let tile = Tile::try_new(1, 1, vec![9; 3], "b as a".to_owned()).expect("a pixel");
        let all = [
            Picture::Confusion { title: None, classes, counts: vec![vec![3, 1], vec![0, 0]] },
            Picture::Tiles { title: "mistakes".to_owned(), tiles: vec![tile], per_row: None },
        ];
        let page = pictures(&all).expect("drawn");
        for expected in ["a&lt;", "75.0 %", "a&lt; as b: 1", "data:image/png", "b as a"] {
            assert!(page.contains(expected), "`{expected}` is missing");
        }
    }

    #[test]
    fn images_stand_in_rows_of_a_number() {
        let tile = || Tile::try_new(1, 1, vec![9; 3], "input".to_owned()).expect("a pixel");
        let rows = |per_row| {
            let tiles = vec![tile(), tile(), tile(), tile(), tile()];
            let all = [Picture::Tiles { title: "windows".to_owned(), tiles, per_row }];
            pictures(&all).expect("drawn").matches("<div class=\"tiles\">").count()
        };
        assert_eq!([None, Some(2), Some(5), Some(9)].map(rows), [1, 3, 1, 1]);
    }

    #[test]
    fn bars_have_names_and_lengths_and_lines_become_plots() {
        let bar = |name: &str, value| Bar { name: name.to_owned(), value };
        let line =
            updraft_run::Line { name: ">50K".to_owned(), points: vec![[17.0, 0.1], [60.0, 0.4]] };
        let all = [
            Picture::Bars {
                title: "importance".to_owned(),
                value_name: "rise".to_owned(),
                bars: vec![bar("age<", 0.2), bar("sex", -0.05)],
            },
            Picture::Lines {
                title: "dependence".to_owned(),
                x_name: "age".to_owned(),
                lines: vec![line],
            },
        ];
        let page = pictures(&all).expect("drawn");
        for expected in ["age&lt;", "0.2000", "width:100.0%", "width:25.0%", "-0.0500", "&gt;50K"] {
            assert!(page.contains(expected), "`{expected}` is missing");
        }
        assert_eq!(page.matches("<svg").count(), 1);
    }

    #[test]
    fn points_and_histograms_become_plots() {
        let all = [
            Picture::Points {
                title: "predicted".to_owned(),
                x_name: "true".to_owned(),
                y_name: "predicted".to_owned(),
                points: vec![[0.0, 0.5], [1.0, 1.5]],
                has_diagonal: true,
            },
            Picture::Histogram {
                title: "residuals".to_owned(),
                x_name: "residual".to_owned(),
                bins: [-1.0, 1.0],
                counts: vec![2, 5],
            },
        ];
        let page = pictures(&all).expect("drawn");
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains("residual") && page.contains("●&#160;a sample"), "{page}");
    }
}
