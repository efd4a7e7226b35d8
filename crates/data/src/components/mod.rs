//! Masks as components that hang together, each with its size.

mod forest;
mod label;
mod table;

pub use label::{ComponentConfig, Components, Connectivity, label_components};
pub use table::Component;
