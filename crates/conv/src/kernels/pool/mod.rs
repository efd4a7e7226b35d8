//! The maximum or the average of windows.

mod plane;
mod pooling;
mod squares;

#[cfg(any(test, feature = "burn"))]
pub(crate) use pooling::{Divisor, PoolShape};
#[cfg(feature = "burn")]
pub(crate) use pooling::{PoolGeometry, Pooling};
#[cfg(feature = "flex")]
pub(crate) use pooling::{pool_gradient_into, pool_into};
