#![doc = include_str!("../README.md")]

mod adamw;
#[cfg(feature = "flex")]
mod kernel;
#[cfg(feature = "flex")]
mod ops;

pub use adamw::AdamW;
