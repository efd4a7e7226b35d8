//! The maximum or the average of windows.

mod plane;
mod pooling;

#[cfg(feature = "burn")]
pub(crate) use pooling::{Divisor, PoolGeometry, PoolShape, Pooling};
#[cfg(feature = "flex")]
pub(crate) use pooling::{pool_gradient_into, pool_into};
