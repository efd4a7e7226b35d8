//! Pictures of a run, as data.

use serde::{Deserialize, Serialize};

use super::tile::Tile;
use crate::error::RunError;
use crate::folder::RunFolder;

/// A plot or a set of images of a trained run, as data for a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Picture {
    /// Counts of true and predicted classes.
    Confusion {
        /// The title, if it is not the only matrix.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// The classes, in the order of rows and columns.
        classes: Vec<String>,
        /// Samples of the true class of the row that were predicted as the column's.
        counts: Vec<Vec<u64>>,
    },
    /// Images with captions.
    Tiles {
        /// The title.
        title: String,
        /// The images, in the order in which they are shown.
        tiles: Vec<Tile>,
        /// The number of images in a row; if there is none, as many as fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        per_row: Option<usize>,
    },
    /// Points with coordinates.
    Points {
        /// The title.
        title: String,
        /// The label of the horizontal axis.
        x_name: String,
        /// The label of the vertical axis.
        y_name: String,
        /// `(x, y)` of each.
        points: Vec<[f64; 2]>,
        /// Whether to draw the line through equal coordinates.
        has_diagonal: bool,
    },
    /// Lines through points, each with a name.
    Lines {
        /// The title.
        title: String,
        /// The label of the horizontal axis.
        x_name: String,
        /// The lines.
        lines: Vec<Line>,
    },
    /// Bars with names.
    Bars {
        /// The title.
        title: String,
        /// What a bar's length is.
        value_name: String,
        /// The bars, in the order in which they are shown.
        bars: Vec<Bar>,
    },
    /// A histogram with equal intervals.
    Histogram {
        /// The title.
        title: String,
        /// The label of the horizontal axis.
        x_name: String,
        /// The left end of the first interval, and its width.
        bins: [f64; 2],
        /// Values in each.
        counts: Vec<u64>,
    },
}

/// A line of a plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// `(x, y)` of each point, in the order of the line.
    pub points: Vec<[f64; 2]>,
}

/// A bar with a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its length; negative ones point to the left.
    pub value: f64,
}

/// The file of a run folder that holds its pictures.
pub(crate) const PICTURES: &str = "pictures.json";

/// Writes that file, if there are pictures, in one line: the confusion matrix of a thousand classes has
/// a million numbers.
pub(crate) fn write_pictures(folder: &RunFolder, pictures: &[Picture]) -> Result<(), RunError> {
    if pictures.is_empty() {
        return Ok(());
    }
    let failed = |cause| RunError::Json { path: folder.path().join(PICTURES), cause };
    let mut text = serde_json::to_vec(pictures).map_err(failed)?;
    text.push(b'\n');
    folder.write(PICTURES, &text)
}
