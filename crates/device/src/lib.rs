#![doc = include_str!("../README.md")]

mod applied;
mod error;
mod facts;
mod kernel_cache;
mod measure;
mod memory;
mod nvidia;
mod open;
mod peak;
mod probe;
mod report;
mod select;
mod spec;

// Naming a device.
pub use spec::{Backend, DeviceId, DeviceSpec};

// Listing devices.
pub use facts::{DtypeFacts, Facts, GraphCapture, MemoryOwner};
pub use measure::{MatmulRate, Measured, Spread, measure, measure_dtypes};
pub use probe::{Card, Inventory, InventoryEntry, State, probe};

// Choosing and opening one.
pub use open::open;
pub use select::{Rejection, Selection, select, select_for_rank};

// Features in use, and memory.
pub use applied::{Applied, applied};
pub use memory::{DeviceMemory, Memory, clean_up, cpu_seconds, memory};
pub use peak::{Peak, PeakSampler};

// The load of a card.
pub use nvidia::{CardLoad, card_load};

// Measured and compiled kernels.
pub use kernel_cache::{
    CacheContents, KernelOrigin, OriginDifference, OwnKernelCache, StoredChoices,
    kernel_cache_contents,
};

// Errors.
pub use error::DeviceError;
