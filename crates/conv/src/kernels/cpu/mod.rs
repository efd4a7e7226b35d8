//! The inner loops, generic over the vector.

mod depthwise;
#[cfg(any(test, feature = "flex"))]
mod fresh;
pub(crate) mod function;
mod gradient;
mod gradient_line;
mod image;
mod line;
pub(crate) mod norm;
mod plane;
pub(crate) mod pool;
pub(crate) mod sum;
mod tile;
mod winograd;

pub(crate) use depthwise::{DepthwiseJob, DepthwiseWeightJob, Grid};
#[cfg(feature = "flex")]
pub(crate) use fresh::{Fresh, fresh};
pub(crate) use gradient::WeightJob;
pub(crate) use gradient_line::LineWeightJob;
pub(crate) use image::{pad, transpose};
pub(crate) use line::LineJob;
pub(crate) use norm::Line;
pub(crate) use plane::{PlaneJob, WINDOW};
pub(crate) use tile::TileJob;
pub(crate) use winograd::{POINTS, RESULTS, Squares, TAPS, Transform, TransformJob};
