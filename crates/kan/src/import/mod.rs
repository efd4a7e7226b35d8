//! Import of networks from other projects.

mod efficient_kan;
mod error;
mod fast_kan;
mod network;
mod parts;
mod pykan;
mod safetensors;
mod state;

pub use error::ImportError;
