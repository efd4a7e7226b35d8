#![doc = include_str!("../README.md")]

mod agree;
mod alone;
mod collective;
mod cost;
mod delayed;
mod launch;
#[cfg(feature = "mpi")]
mod mpi;
mod reduce;
mod roll_call;
mod share;
mod shared;
mod threads;
mod unconnected;
mod watchdog;
mod wire;

// Engines.
#[cfg(feature = "mpi")]
pub use crate::mpi::Mpi;
pub use alone::Alone;
pub use collective::{Collective, CollectiveError};
pub use delayed::Delayed;
pub use roll_call::{Signal, Signals};
pub use shared::Shared;
pub use threads::Threads;
pub use unconnected::Unconnected;
pub use watchdog::{Stalled, Watched};

// Computations on collectives.
pub use agree::{agree, gather};
pub use reduce::{AllReduce, gather_f64, sum_f64};
pub use share::Share;
pub use wire::Wire;

// What exchanges, checkpoints and failures cost.
pub use cost::{Network, Restarts, StepExchange};

// How ranks are started.
pub use launch::{Launch, LaunchError, Launcher};
