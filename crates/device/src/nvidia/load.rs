//! The load of a card, now.

#[cfg(not(feature = "nvml"))]
use super::disabled::load;
#[cfg(feature = "nvml")]
use super::enabled::load;

/// The load of a card by all programs that use it, as NVIDIA's management library reports it; `None`
/// where the library does not know.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CardLoad {
    /// The fraction of the last sample period, 1/6 s to 1 s, in which at least one kernel ran: 1 does
    /// not mean that the card computes as fast as it can. Unknown for a part of a card (MIG).
    pub busy_share: Option<f64>,
    /// Memory in use, in bytes.
    pub memory_bytes: Option<u64>,
    /// The temperature of the GPU in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// The power of the card in watts.
    pub power_w: Option<f64>,
}

/// Returns the load of the card at a PCI address, which [`Facts::card`](crate::Facts::card) has.
///
/// `None` for a card that is not NVIDIA's, without the library, and without the cargo feature `nvml`.
#[must_use]
pub fn card_load(address: &str) -> Option<CardLoad> {
    load(address)
}
