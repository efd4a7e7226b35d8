#![doc = include_str!("../README.md")]

mod cast;
mod clip;
mod error;
mod finite;
mod islands;
mod parity;
mod policy;
mod text;

// The three dtypes.
pub use policy::Policy;

// What stays in f32.
pub use islands::{Islands, islands};

// Gradients.
pub use clip::clip_global_norm;
pub use finite::first_non_finite;

// Two results compared.
pub use parity::Parity;

// What goes wrong.
pub use error::PrecisionError;
