//! The device of a command: asked for, chosen with its reason, opened.

use anyhow::Result;
use burn::tensor::Device;
use updraft_device::{DeviceSpec, Selection, open, probe, select};

/// Chooses and opens a device.
pub(crate) fn choose(spec: &DeviceSpec) -> Result<(Device, Selection)> {
    let selection = select(spec, &probe())?;
    let device = open(&selection)?;
    tracing::info!(device = %selection.id, reason = %selection.reason, "device chosen");
    Ok((device, selection))
}
