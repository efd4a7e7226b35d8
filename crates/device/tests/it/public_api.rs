//! Every name this crate promises: removing one breaks this file, not a user.

use updraft_device::{
    Applied, Backend, Card, DeviceError, DeviceId, DeviceMemory, DeviceSpec, DtypeFacts, Facts,
    GraphCapture, Inventory, InventoryEntry, MatmulRate, Measured, Memory, Peak, PeakSampler,
    Rejection, Selection, Spread, State, applied, clean_up, cpu_seconds, device_memory, measure,
    memory, open, probe, select,
};

#[test]
fn the_promised_names_are_there() {
    let _ = size_of::<(Applied, Backend, DeviceError, DeviceId, DeviceSpec, Inventory)>();
    let _ = size_of::<(InventoryEntry, Memory, Rejection, Selection, State, Card, DeviceMemory)>();
    let _ = size_of::<(DtypeFacts, Facts, GraphCapture, MatmulRate, Measured, Spread)>();
    let _ = size_of::<(Peak, PeakSampler)>();
    let _ = (applied, cpu_seconds, memory, open, probe, select);
    let _ = (clean_up, device_memory, measure);
}
