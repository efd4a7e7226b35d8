//! The maximum or the average of windows.

mod plane;
mod pooling;
mod volume;

pub use pooling::{Divisor, PoolGeometry, PoolShape, Pooling, pool, pool_gradient};
#[cfg(feature = "flex")]
pub(crate) use pooling::{pool_gradient_into, pool_into};
pub use volume::{Pool3dGeometry, Pool3dShape, pool_3d, pool_3d_gradient};
#[cfg(feature = "flex")]
pub(crate) use volume::{pool_3d_gradient_into, pool_3d_into};
