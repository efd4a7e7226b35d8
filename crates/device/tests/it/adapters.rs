//! The adapters of GPUs that the tests of this build run on: `cargo xtask test-device` prints them.

use updraft_device::{Backend, State, probe};

#[test]
fn every_adapter_has_a_name() {
    let on_processors = [Backend::Flex, Backend::CubeclCpu];
    for entry in probe().entries {
        if entry.state != State::Usable || on_processors.contains(&entry.id.backend) {
            continue;
        }
        let name = entry.name.expect("an adapter has a name");
        assert!(!name.trim().is_empty(), "{}", entry.id);
        let software = if entry.is_software { ", emulated on the processor" } else { "" };
        println!("adapter: {}: {name}{software}", entry.id);
    }
}
