//! NVIDIA's management library: memory, load, temperature and power of a card, which burn does not
//! report.

#[cfg(not(feature = "nvml"))]
mod disabled;
#[cfg(feature = "nvml")]
mod enabled;
mod load;

#[cfg(not(feature = "nvml"))]
pub(crate) use disabled::card;
#[cfg(feature = "nvml")]
pub(crate) use enabled::card;
pub use load::{CardLoad, card_load};

/// Facts about one card; `None` where the library does not know.
pub(crate) struct NvidiaCard {
    pub(crate) driver: Option<String>,
    pub(crate) memory_total_bytes: Option<u64>,
    pub(crate) memory_free_bytes: Option<u64>,
}
