//! Networks for the rows of a table, with one output for each target.

mod embedding;
mod encoder;
mod head;
mod interaction;
mod periodic;
mod spline;
mod trunk;

pub use embedding::RowFeatures;
pub use head::Head;
pub use interaction::{InteractionConfig, InteractionNet};
pub use spline::{SplineNet, SplineNetConfig};
pub use trunk::{TableNet, TableNetConfig, Trunk};

pub(crate) use embedding::Categories;
pub(crate) use head::Heads;
pub(crate) use periodic::Periodic;
