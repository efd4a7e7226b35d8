//! The device of a command: parsed, selected and opened.

use std::process::Command;

use anyhow::{Context, Result};
use burn::tensor::Device;
use updraft_device::{
    Backend, DeviceSpec, Inventory, Selection, State, open, probe, select, select_for_rank,
};

use crate::device_fault::DeviceFault;
use crate::device_panic::{is_consequence, listing};

/// The environment variable that names burn's default device.
const DEFAULT_DEVICE: &str = "BURN_DEVICE";

/// The devices. One that is listed and cannot be opened has the reason of its driver.
pub(crate) fn probed() -> Inventory {
    let (mut inventory, causes) = listing(probe);
    let mut causes = causes.into_iter();
    for entry in &mut inventory.entries {
        // Each device that cannot be opened was one panic of this thread.
        if let State::Absent { reason } = &mut entry.state
            && is_consequence(reason)
            && let Some(said) = causes.next().flatten()
        {
            let first = || said.lines().next().unwrap_or_default().to_owned();
            let cause = DeviceFault::of(&said).map_or_else(first, |fault| fault.cause(&said));
            *reason = format!("it is listed and cannot be opened: {cause}");
        }
    }
    inventory
}

/// Chooses and opens a device.
pub(crate) fn choose(spec: &DeviceSpec) -> Result<(Device, Selection)> {
    let selection = select(spec, &probed())?;
    let device = open(&selection)?;
    tracing::info!(device = %selection.id, reason = %selection.reason, "device chosen");
    Ok((device, selection))
}

/// The same for one of several ranks of a machine, by its number there.
pub(crate) fn choose_for_rank(
    spec: &DeviceSpec,
    local_rank: Option<usize>,
) -> Result<(Device, Selection)> {
    let Some(local_rank) = local_rank else { return choose(spec) };
    let selection = select_for_rank(spec, &probed(), local_rank)?;
    let device = open(&selection)?;
    tracing::info!(device = %selection.id, reason = %selection.reason, "device chosen");
    Ok((device, selection))
}

/// Restarts the program with the chosen backend as burn's default, if the default may be another
/// one.
///
/// burn restores an optimizer on its default device, the first of the backends in the build, even
/// if that is not available.
pub(crate) fn make_default(selection: &Selection) -> Result<()> {
    let compiled = Backend::ALL.into_iter().filter(|backend| backend.is_compiled()).count();
    if compiled < 2 || std::env::var_os(DEFAULT_DEVICE).is_some() {
        return Ok(());
    }
    let program = std::env::current_exe().context("the program cannot find itself")?;
    let mut again = Command::new(program);
    keep_name(&mut again);
    again.args(std::env::args_os().skip(1)).env(DEFAULT_DEVICE, selection.id.backend.feature());
    replace(again)
}

/// The name under which this program was started, for the restarted one.
#[cfg(unix)]
fn keep_name(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
}

/// On other systems the name of a process is its file.
#[cfg(not(unix))]
fn keep_name(_: &mut Command) {}

/// Becomes another process.
#[cfg(unix)]
fn replace(mut command: Command) -> Result<()> {
    use std::os::unix::process::CommandExt;

    Err(command.exec()).context("cannot restart the program")
}

/// Waits for another process and exits with its status.
#[cfg(not(unix))]
fn replace(mut command: Command) -> Result<()> {
    let ended = command.status().context("cannot restart the program")?;
    std::process::exit(ended.code().unwrap_or(1))
}
