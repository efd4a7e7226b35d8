#![doc = include_str!("../README.md")]

mod applied;
mod error;
mod memory;
mod open;
mod probe;
mod report;
mod select;
mod spec;

// Naming a device.
pub use spec::{Backend, DeviceId, DeviceSpec};

// What there is.
pub use probe::{Inventory, InventoryEntry, State, probe};

// Choosing and opening one.
pub use open::open;
pub use select::{Rejection, Selection, select};

// What is in force, and what is used up.
pub use applied::{Applied, applied};
pub use memory::{Memory, cpu_seconds, memory};

// What goes wrong.
pub use error::DeviceError;
