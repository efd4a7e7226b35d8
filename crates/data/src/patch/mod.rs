//! Parts of pictures and volumes: random ones to learn from, overlapping ones to predict with.

mod random;
mod sliding;
mod window;

pub use random::{PatchPair, RandomPatches};
pub use sliding::SlidingWindow;

pub(crate) use window::Window;
