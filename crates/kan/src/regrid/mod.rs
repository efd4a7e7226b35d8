//! Changing the knots of splines; nothing here depends on burn.

mod least_squares;
mod placement;
mod refine;
mod refit;

pub use placement::{Placement, PlacementError};
pub use refine::refine;
pub use refit::refit;
