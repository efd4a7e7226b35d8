//! Connected components of masks, with their sizes.

mod forest;
mod label;
mod table;

pub use label::{ComponentConfig, Components, Connectivity, label_components};
pub use table::Component;
