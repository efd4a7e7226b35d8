//! `probe`: the devices that this build supports.

use anyhow::Result;
use clap::Args;

use crate::device::probed;
use crate::program::next;

/// Lists the devices, with the reason for each that cannot be used.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// Print JSON instead of a table (crates/device/README.md has its fields)
    #[arg(long)]
    json: bool,
    /// Also measure the speed of matrix products and copies, which takes seconds for each device
    #[arg(long)]
    measure: bool,
}

/// Prints the inventory to standard output.
pub(crate) fn run(args: &ProbeArgs) -> Result<()> {
    let mut inventory = probed();
    if args.measure {
        inventory.measure()?;
    }
    if args.json {
        crate::print(&serde_json::to_string_pretty(&inventory)?)?;
    } else {
        crate::print(&inventory.table())?;
        next("verify");
    }
    Ok(())
}
