//! Every name this crate promises: removing one breaks this file, not a user.

use updraft_device::{
    Applied, Backend, DeviceError, DeviceId, DeviceSpec, Inventory, InventoryEntry, Memory,
    Rejection, Selection, State, applied, cpu_seconds, memory, open, probe, select,
};

#[test]
fn the_promised_names_are_there() {
    let _ = size_of::<(Applied, Backend, DeviceError, DeviceId, DeviceSpec, Inventory)>();
    let _ = size_of::<(InventoryEntry, Memory, Rejection, Selection, State)>();
    let _ = (applied, cpu_seconds, memory, open, probe, select);
}
