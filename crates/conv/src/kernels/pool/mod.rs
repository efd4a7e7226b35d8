//! The maximum or the average of windows.

mod plane;
mod pooling;

pub use pooling::{Divisor, PoolGeometry, PoolShape, Pooling, pool, pool_gradient};
#[cfg(feature = "flex")]
pub(crate) use pooling::{pool_gradient_into, pool_into};
