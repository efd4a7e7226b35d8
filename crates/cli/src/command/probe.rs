//! `probe`: every device of the build, and the reasons for unusable ones.

use anyhow::Result;
use clap::Args;
use updraft_device::probe;

use crate::program::next;

/// Lists the devices of this build, with the reason for each unusable one.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// Print JSON instead of a table (crates/device/README.md has its fields)
    #[arg(long)]
    json: bool,
    /// Also measure matrix products and copies; takes seconds for each device
    #[arg(long)]
    measure: bool,
}

/// Prints the inventory to standard output.
pub(crate) fn run(args: &ProbeArgs) -> Result<()> {
    let mut inventory = probe();
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
