//! Queries NVML, which is loaded at the first query and may be missing.

use std::sync::OnceLock;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;

use super::{CardLoad, NvidiaCard};

/// Looks up the card at a PCI address such as `0000:07:00.0`.
///
/// `None` without the library, and for a card that is not NVIDIA's.
pub(crate) fn card(address: &str) -> Option<NvidiaCard> {
    let library = library()?;
    let card = library.device_by_pci_bus_id(address).ok()?;
    let memory = card.memory_info().ok();
    Some(NvidiaCard {
        driver: library.sys_driver_version().ok(),
        memory_total_bytes: memory.as_ref().map(|memory| memory.total),
        memory_free_bytes: memory.as_ref().map(|memory| memory.free),
    })
}

pub(super) fn load(address: &str) -> Option<CardLoad> {
    let card = library()?.device_by_pci_bus_id(address).ok()?;
    Some(CardLoad {
        busy_share: card.utilization_rates().ok().map(|rates| f64::from(rates.gpu) / 100.0),
        memory_bytes: card.memory_info().ok().map(|memory| memory.used),
        temperature_c: card.temperature(TemperatureSensor::Gpu).ok(),
        power_w: card.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1000.0),
    })
}

/// The library, if it is installed.
fn library() -> Option<&'static Nvml> {
    static LIBRARY: OnceLock<Option<Nvml>> = OnceLock::new();
    LIBRARY.get_or_init(|| Nvml::init().ok()).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_is_not_there_is_none_with_or_without_the_library() {
        for address in ["ffff:ff:1f.0", "no address"] {
            assert!(card(address).is_none());
            assert!(load(address).is_none());
        }
    }
}
