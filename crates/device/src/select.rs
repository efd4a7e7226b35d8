//! Chooses a device, with the reason: a pure function of the inventory.

use serde::Serialize;

use crate::error::DeviceError;
use crate::facts::Facts;
use crate::probe::{Inventory, InventoryEntry, State};
use crate::spec::{Backend, DeviceId, DeviceSpec};

/// A chosen device with the reason, and the reason against every other device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Selection {
    /// The chosen device.
    pub id: DeviceId,
    /// The hardware's own name, if the backend reports it.
    pub name: Option<String>,
    /// Facts about it.
    pub facts: Option<Facts>,
    /// Why it was chosen.
    pub reason: String,
    /// All other devices, in the order of preference: those that cannot be used, and those that
    /// are less preferred. Empty if a device was named.
    pub rejected: Vec<Rejection>,
}

/// A device that was not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// The device.
    pub id: DeviceId,
    /// Why it was not chosen.
    pub reason: String,
}

/// Chooses a device from an inventory.
///
/// `auto` takes the first usable one in the order CUDA, `ROCm`, Metal, Vulkan, WebGPU, wgpu, flex,
/// CubeCL on the CPU, with adapters that emulate a GPU in software last: they compute slower than
/// flex. Any other choice is used as it is or refused; there is no silent fallback.
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
            let mut entries: Vec<_> = inventory.entries.iter().filter(on_cpu).collect();
            entries.sort_by_key(|entry| entry.id);
            match entries.iter().find(|entry| entry.state == State::Usable) {
                Some(entry) => Ok(selected(entry, "asked for the CPU".to_owned())),
                None => Err(DeviceError::NotCompiled { spec: *spec, feature: "flex" }),
            }
        }
        DeviceSpec::Exact { backend, index } => exact(spec, backend, index, inventory),
    }
}

/// [`select`] for one of several processes of a machine, the one with this number among them.
///
/// If no index is asked for, the processes take the usable devices of the chosen backend in turn;
/// with more processes than devices, several share one.
///
/// # Errors
/// As [`select`].
pub fn select_for_rank(
    spec: &DeviceSpec,
    inventory: &Inventory,
    local_rank: usize,
) -> Result<Selection, DeviceError> {
    let first = select(spec, inventory)?;
    if matches!(spec, DeviceSpec::Exact { index: Some(_), .. }) {
        return Ok(first);
    }
    let is_alike = |entry: &&InventoryEntry| {
        entry.id.backend == first.id.backend && entry.state == State::Usable && !entry.is_software
    };
    let mut alike: Vec<_> = inventory.entries.iter().filter(is_alike).collect();
    alike.sort_by_key(|entry| entry.id);
    if alike.len() < 2 {
        return Ok(first);
    }
    let entry = alike[local_rank % alike.len()];
    let reason = format!("{}, for the process {local_rank} of this machine", first.reason);
    Ok(Selection { rejected: first.rejected, ..selected(entry, reason) })
}

fn automatic(inventory: &Inventory) -> Result<Selection, DeviceError> {
    let mut entries: Vec<_> = inventory.entries.iter().collect();
    entries.sort_by_key(|entry| (entry.is_software, entry.id));
    let Some(best) = entries.iter().position(|entry| entry.state == State::Usable) else {
        return Err(DeviceError::Nothing);
    };
    let chosen = entries.remove(best);
    let reason = if best == 0 { "the most preferred device" } else { "the first usable device" };
    let rejected = entries.into_iter().map(|entry| {
        let reason = match &entry.state {
            State::Usable if entry.is_software && !chosen.is_software => {
                format!("emulates a GPU on the processor, so it ranks below {}", chosen.id)
            }
            State::Usable => format!("less preferred than {}", chosen.id),
            State::NotCompiled { feature } => {
                format!("not compiled in (cargo feature `{feature}`)")
            }
            State::Absent { reason } => reason.clone(),
        };
        Rejection { id: entry.id, reason }
    });
    Ok(Selection { rejected: rejected.collect(), ..selected(chosen, reason.to_owned()) })
}

fn exact(
    spec: &DeviceSpec,
    backend: Backend,
    index: Option<usize>,
    inventory: &Inventory,
) -> Result<Selection, DeviceError> {
    let of_backend = |entry: &&InventoryEntry| entry.id.backend == backend;
    let mut entries: Vec<_> = inventory.entries.iter().filter(of_backend).collect();
    entries.sort_by_key(|entry| entry.id);
    let is_wanted = |entry: &&&InventoryEntry| index.is_none_or(|index| entry.id.index == index);
    let is_usable = |entry: &&InventoryEntry| entry.state == State::Usable;
    if let Some(entry) = entries.iter().filter(is_wanted).find(|entry| is_usable(entry)) {
        return Ok(selected(entry, format!("asked for `{spec}`")));
    }
    // The fault of the very device that was named, else that of the backend.
    let fault = entries
        .iter()
        .find(is_wanted)
        .or_else(|| entries.first().filter(|_| !entries.iter().any(is_usable)));
    let reason = match fault.map(|entry| &entry.state) {
        Some(State::Absent { reason }) => reason.clone(),
        Some(State::Usable) | None if !entries.is_empty() => {
            let last = entries.last().map_or(0, |entry| entry.id.index);
            format!("{backend} has the indices 0 to {last} here")
        }
        _ => return Err(DeviceError::NotCompiled { spec: *spec, feature: backend.feature() }),
    };
    Err(DeviceError::NotUsable { spec: *spec, reason })
}

fn selected(entry: &InventoryEntry, reason: String) -> Selection {
    let (name, facts) = (entry.name.clone(), entry.facts.clone());
    Selection { id: entry.id, name, facts, reason, rejected: Vec::new() }
}
