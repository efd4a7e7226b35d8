//! Generated microscopy images of cells, with masks.

mod blur;
mod draw;
mod files;
mod scene;

pub use draw::{CellImages, CellsConfig, draw_cells};
pub use files::{CellFiles, write_cells};
