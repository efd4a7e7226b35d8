#![doc = include_str!("../README.md")]

mod adamw;
mod adamw_plain;
mod adamw_state;
mod control;
mod count;
#[cfg(any(feature = "flex", feature = "cube", feature = "every-kernel"))]
mod kernels;
mod ops;
mod plain;
mod reason;
mod scope;
mod sgd;
mod skipped;

// The optimizers.
pub use adamw::AdamW;
pub use adamw_state::AdamWState;
pub use sgd::{Sgd, SgdState};

// Updates that the device decides about.
pub use control::{DeviceControl, controlled, takes_control};

// The choice between kernels and burn's operations.
pub use plain::make_plain_default;
pub use reason::{PlainReason, plain_reason};

// The kernels for GPUs, for programs that compile them without a card.
#[cfg(feature = "every-kernel")]
pub use kernels::every_kernel;
