//! Connected components of masks, with their sizes.

mod label;
mod table;
mod union_find;

pub use label::{ComponentConfig, Components, Connectivity, label_components};
pub use table::Component;
