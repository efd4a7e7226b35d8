//! Lists every device of this build, usable or not, with the reason.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::Device;
use serde::Serialize;

use crate::error::DeviceError;
use crate::facts::{Facts, describe};
use crate::measure::{Measured, measure};
use crate::open::open_id;
use crate::spec::{Backend, DeviceId};

/// The version of [`Inventory`]'s JSON form.
const VERSION: u32 = 2;

/// The devices of this build on this machine.
///
/// The crate's page documents the JSON form.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Inventory {
    /// The version of the JSON form: it increases when a field changes its meaning.
    pub version: u32,
    /// At least one entry per backend, in the order of preference.
    pub entries: Vec<InventoryEntry>,
    /// The physical cards among the entries, each with all its devices.
    pub cards: Vec<Card>,
}

/// One device, or one backend without any.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InventoryEntry {
    /// Its name.
    pub id: DeviceId,
    /// The hardware's own name, if the backend reports it.
    pub name: Option<String>,
    /// Whether it emulates a GPU on the CPU, as Mesa's lavapipe does.
    pub is_software: bool,
    /// Whether it can be used.
    pub state: State,
    /// Facts about a usable device.
    pub facts: Option<Facts>,
    /// Its rates, if it was [measured](Inventory::measure).
    pub measured: Option<Measured>,
}

/// One physical card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Card {
    /// Its PCI address, such as `0000:07:00.0`.
    pub address: String,
    /// The devices that run on it, in the order of preference.
    pub ids: Vec<DeviceId>,
}

/// Whether a device can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// It can.
    Usable,
    /// Its backend is not part of this build.
    NotCompiled {
        /// The cargo feature that compiles it in.
        feature: String,
    },
    /// Its backend is compiled in and finds no device.
    Absent {
        /// The reason.
        reason: String,
    },
}

impl Inventory {
    /// An inventory of these entries.
    #[must_use]
    pub fn new(entries: Vec<InventoryEntry>) -> Self {
        let mut cards: Vec<Card> = Vec::new();
        for entry in &entries {
            let Some(address) = entry.facts.as_ref().and_then(|facts| facts.card.as_ref()) else {
                continue;
            };
            match cards.iter_mut().find(|card| card.address == *address) {
                Some(card) => card.ids.push(entry.id),
                None => cards.push(Card { address: address.clone(), ids: vec![entry.id] }),
            }
        }
        Self { version: VERSION, entries, cards }
    }

    /// Measures every usable device, one after the other; takes seconds for each.
    ///
    /// # Errors
    /// [`DeviceError::Gone`] or [`DeviceError::Failed`] if a device cannot be opened or stops
    /// computing; earlier measurements are kept.
    pub fn measure(&mut self) -> Result<(), DeviceError> {
        for entry in self.entries.iter_mut().filter(|entry| entry.state == State::Usable) {
            entry.measured = Some(measure(&open_id(entry.id)?)?);
        }
        Ok(())
    }
}

impl InventoryEntry {
    /// An entry without facts.
    #[must_use]
    pub fn new(id: DeviceId, state: State) -> Self {
        Self { id, name: None, is_software: false, state, facts: None, measured: None }
    }
}

/// Lists the devices; a missing driver is an entry, never a panic.
///
/// Listing the devices of a backend opens none. Describing them opens each of them.
#[must_use]
pub fn probe() -> Inventory {
    let mut entries = Vec::new();
    for backend in Backend::ALL {
        let id = DeviceId { backend, index: 0 };
        if !backend.is_compiled() {
            let feature = backend.feature().to_owned();
            entries.push(InventoryEntry::new(id, State::NotCompiled { feature }));
            continue;
        }
        let devices = enumerate(backend);
        if devices.is_empty() {
            let reason = format!("no {backend} driver or device was found");
            entries.push(InventoryEntry::new(id, State::Absent { reason }));
        }
        for (index, device) in devices.iter().enumerate() {
            entries.push(entry(DeviceId { backend, index }, || describe(backend, device)));
        }
    }
    Inventory::new(entries)
}

/// The entry of a device that its backend lists.
///
/// burn panics for a device that is listed and cannot be opened (out of memory, used by another
/// process); here it is an entry with the reason.
fn entry(id: DeviceId, describe: impl FnOnce() -> (Option<String>, bool, Facts)) -> InventoryEntry {
    match catch_unwind(AssertUnwindSafe(describe)) {
        Ok((name, is_software, facts)) => InventoryEntry {
            name,
            is_software,
            facts: Some(facts),
            ..InventoryEntry::new(id, State::Usable)
        },
        Err(panic) => {
            let reason = format!("it is listed and cannot be opened: {}", message(&*panic));
            InventoryEntry::new(id, State::Absent { reason })
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason was given")
}

/// The devices of a compiled backend; none if its driver is missing.
pub(crate) fn enumerate(backend: Backend) -> Vec<Device> {
    // burn's list of device types has a variant only where its feature is on.
    #[allow(unused_imports, reason = "no backend compiled in, none named")]
    use burn::tensor::DeviceType;
    match backend {
        #[cfg(feature = "cuda")]
        Backend::Cuda => Device::enumerate(DeviceType::Cuda).to_vec(),
        #[cfg(feature = "rocm")]
        Backend::Rocm => Device::enumerate(DeviceType::Rocm).to_vec(),
        #[cfg(feature = "metal")]
        Backend::Metal => Device::enumerate(DeviceType::Metal).to_vec(),
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => Device::enumerate(DeviceType::Vulkan).to_vec(),
        #[cfg(feature = "webgpu")]
        Backend::Webgpu => Device::enumerate(DeviceType::WebGpu).to_vec(),
        #[cfg(feature = "wgpu")]
        Backend::Wgpu => Device::enumerate(DeviceType::Wgpu).to_vec(),
        #[cfg(feature = "flex")]
        Backend::Flex => vec![Device::flex()],
        #[cfg(feature = "cpu")]
        Backend::CubeclCpu => vec![Device::cpu()],
        #[allow(unreachable_patterns, reason = "every backend compiled in")]
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{GraphCapture, MemoryOwner};

    const ID: DeviceId = DeviceId { backend: Backend::Cuda, index: 0 };

    #[test]
    fn a_device_that_cannot_be_opened_is_an_entry_with_the_reason() {
        let found = entry(ID, || panic!("out of memory"));
        let reason = "it is listed and cannot be opened: out of memory".to_owned();
        assert_eq!(found, InventoryEntry::new(ID, State::Absent { reason }));
    }

    #[test]
    fn a_card_that_two_backends_reach_is_one_card_with_two_ids() {
        let reached = |backend, card: &str| InventoryEntry {
            facts: Some(Facts {
                driver: None,
                target: None,
                card: Some(card.to_owned()),
                memory_owner: MemoryOwner::Device,
                memory_total_bytes: None,
                memory_free_bytes: None,
                dtypes: Vec::new(),
                graph_capture: GraphCapture::Replayed,
            }),
            ..InventoryEntry::new(DeviceId { backend, index: 0 }, State::Usable)
        };
        let entries = vec![
            reached(Backend::Cuda, "0000:07:00.0"),
            reached(Backend::Vulkan, "0000:07:00.0"),
            reached(Backend::Wgpu, "0000:08:00.0"),
        ];
        let inventory = Inventory::new(entries);
        let cards: Vec<_> = inventory
            .cards
            .iter()
            .map(|card| card.ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(cards, ["cuda:0 vulkan:0", "wgpu:0"]);
        // A row for the two that are one card, one for the other, and the head.
        let table = inventory.table();
        assert_eq!(table.lines().filter(|line| !line.starts_with(' ')).count(), 3, "{table}");
        assert!(table.contains("vulkan:0"), "{table}");
    }
}
