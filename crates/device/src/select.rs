//! Which device it shall be, and why: a function of the inventory alone.

use serde::Serialize;

use crate::error::DeviceError;
use crate::probe::{Inventory, InventoryEntry, State};
use crate::spec::{Backend, DeviceId, DeviceSpec};

/// A chosen device with the reason for it, and for every one passed over before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Selection {
    /// The chosen device.
    pub id: DeviceId,
    /// Why it was chosen.
    pub reason: String,
    /// What was preferred to it and could not be used, in the order of preference.
    pub rejected: Vec<Rejection>,
}

/// A device that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// The device.
    pub id: DeviceId,
    /// Why it was passed over.
    pub reason: String,
}

/// Chooses a device from an inventory.
///
/// `auto` takes the first usable one in the order CUDA, `ROCm`, Metal, Vulkan, WebGPU, wgpu, flex,
/// CubeCL on the CPU, with adapters that emulate a GPU in software last: they compute slower than
/// flex. Any other choice is taken as it is or refused; nothing is fallen back to in silence.
///
/// # Errors
/// [`DeviceError::NotCompiled`] naming the cargo feature, [`DeviceError::NotUsable`] naming the
/// reason, or [`DeviceError::Nothing`] when `auto` finds no device at all.
pub fn select(spec: &DeviceSpec, inventory: &Inventory) -> Result<Selection, DeviceError> {
    match *spec {
        DeviceSpec::Auto => automatic(inventory),
        DeviceSpec::Cpu => {
            let on_cpu = |entry: &&InventoryEntry| {
                matches!(entry.id.backend, Backend::Flex | Backend::CubeclCpu)
            };
            let entries: Vec<_> = inventory.entries.iter().filter(on_cpu).collect();
            match entries.iter().find(|entry| entry.state == State::Usable) {
                Some(entry) => Ok(chosen(entry, "asked for the CPU".to_owned())),
                None => Err(DeviceError::NotCompiled { spec: *spec, feature: "flex" }),
            }
        }
        DeviceSpec::Exact { backend, index } => exact(spec, backend, index, inventory),
    }
}

fn automatic(inventory: &Inventory) -> Result<Selection, DeviceError> {
    // The inventory comes in the order of preference, and sorting is stable.
    let mut entries: Vec<_> = inventory.entries.iter().collect();
    entries.sort_by_key(|entry| (entry.is_software, entry.id.backend));
    let mut rejected = Vec::new();
    for entry in entries {
        let reason = match &entry.state {
            State::Usable if rejected.is_empty() => "the most preferred device".to_owned(),
            State::Usable => "the first usable device".to_owned(),
            State::NotCompiled { feature } => {
                let reason = format!("not compiled in (cargo feature `{feature}`)");
                rejected.push(Rejection { id: entry.id, reason });
                continue;
            }
            State::Absent { reason } => {
                rejected.push(Rejection { id: entry.id, reason: reason.clone() });
                continue;
            }
        };
        return Ok(Selection { id: entry.id, reason, rejected });
    }
    Err(DeviceError::Nothing)
}

fn exact(
    spec: &DeviceSpec,
    backend: Backend,
    index: Option<usize>,
    inventory: &Inventory,
) -> Result<Selection, DeviceError> {
    let entries: Vec<_> =
        inventory.entries.iter().filter(|entry| entry.id.backend == backend).collect();
    let usable: Vec<_> =
        entries.iter().copied().filter(|entry| entry.state == State::Usable).collect();
    let wanted = |entry: &&&InventoryEntry| index.is_none_or(|index| entry.id.index == index);
    if let Some(entry) = usable.iter().find(wanted) {
        return Ok(chosen(entry, format!("asked for `{spec}`")));
    }
    let reason = match entries.first().map(|entry| &entry.state) {
        None | Some(State::NotCompiled { .. }) => {
            return Err(DeviceError::NotCompiled { spec: *spec, feature: backend.feature() });
        }
        Some(State::Absent { reason }) => reason.clone(),
        Some(State::Usable) => {
            let last = usable.len() - 1;
            format!("{backend} has the indices 0 to {last} here")
        }
    };
    Err(DeviceError::NotUsable { spec: *spec, reason })
}

fn chosen(entry: &InventoryEntry, reason: String) -> Selection {
    Selection { id: entry.id, reason, rejected: Vec::new() }
}
