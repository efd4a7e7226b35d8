#![doc = include_str!("../README.md")]

mod adamw;
#[cfg(feature = "flex")]
mod kernels;
#[cfg(feature = "flex")]
mod ops;
mod plain;
mod sgd;

pub use adamw::AdamW;
pub use plain::make_plain_default;
pub use sgd::{Sgd, SgdState};
