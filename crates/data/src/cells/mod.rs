//! Drawn cells as microscopes show them, with what is to be found in them.

mod blur;
mod draw;
mod files;
mod scene;

pub use draw::{CellImages, CellsConfig, draw_cells};
pub use files::{CellFiles, write_cells};
