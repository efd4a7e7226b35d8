//! Queries NVML, which is loaded at the first query and may be missing.

use std::sync::OnceLock;

use nvml_wrapper::Nvml;

use crate::nvidia::NvidiaCard;

/// Looks up the card at a PCI address such as `0000:07:00.0`.
///
/// `None` without the library, and for a card that is not NVIDIA's.
pub(crate) fn card(address: &str) -> Option<NvidiaCard> {
    static LIBRARY: OnceLock<Option<Nvml>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| Nvml::init().ok()).as_ref()?;
    let card = library.device_by_pci_bus_id(address).ok()?;
    let memory = card.memory_info().ok();
    Some(NvidiaCard {
        driver: library.sys_driver_version().ok(),
        memory_total_bytes: memory.as_ref().map(|memory| memory.total),
        memory_free_bytes: memory.as_ref().map(|memory| memory.free),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_is_not_there_is_none_with_or_without_the_library() {
        assert!(card("ffff:ff:1f.0").is_none());
        assert!(card("no address").is_none());
    }
}
