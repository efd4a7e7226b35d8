//! The network in the form for inference: norms and gates are part of the weights.

mod affine;
mod block;
mod gate;
mod head;
mod maps;
mod network;
mod options;
mod scales;
mod stage;

pub use network::FoldedDualPathway;
pub use options::FoldOptions;
