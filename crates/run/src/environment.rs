//! The environment of a run: machine, device and the reason for it, versions, features in use.

use serde::Serialize;
use updraft_device::{Applied, Memory, Selection};

/// The version of burn in Cargo.lock; a test compares them.
const BURN: &str = "0.22.1";

/// The environment of a run, stored in its folder.
#[derive(Debug, Serialize)]
pub(crate) struct Environment<'a> {
    updraft: &'static str,
    burn: &'static str,
    operating_system: &'static str,
    architecture: &'static str,
    processor: Option<String>,
    logical_cpus: usize,
    memory: Memory,
    device: &'a Selection,
    applied: &'a Applied,
}

impl<'a> Environment<'a> {
    /// Looks at this machine.
    pub(crate) fn new(device: &'a Selection, applied: &'a Applied) -> Self {
        let system = sysinfo::System::new_with_specifics(
            sysinfo::RefreshKind::nothing().with_cpu(sysinfo::CpuRefreshKind::nothing()),
        );
        Self {
            updraft: env!("CARGO_PKG_VERSION"),
            burn: BURN,
            operating_system: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            processor: system
                .ok()
                .and_then(|system| system.cpus().first().map(|cpu| cpu.brand().trim().to_owned())),
            logical_cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory: updraft_device::memory(),
            device,
            applied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_burn_version_is_the_locked_one() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"burn\"\nversion = \"{BURN}\"")));
    }
}
