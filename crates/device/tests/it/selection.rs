//! Choosing from invented inventories.

use updraft_device::{
    Backend, DeviceError, DeviceId, DeviceSpec, Inventory, InventoryEntry, State, select,
};

fn entry(backend: Backend, index: usize, state: State) -> InventoryEntry {
    InventoryEntry { id: DeviceId { backend, index }, name: None, is_software: false, state }
}

fn usable(backend: Backend, index: usize) -> InventoryEntry {
    entry(backend, index, State::Usable)
}

fn software(backend: Backend) -> InventoryEntry {
    InventoryEntry { is_software: true, ..usable(backend, 0) }
}

fn absent(backend: Backend) -> InventoryEntry {
    entry(backend, 0, State::Absent { reason: "no driver".to_owned() })
}

fn not_compiled(backend: Backend) -> InventoryEntry {
    entry(backend, 0, State::NotCompiled { feature: backend.feature().to_owned() })
}

fn chosen(spec: &str, entries: Vec<InventoryEntry>) -> Result<String, DeviceError> {
    let spec: DeviceSpec = spec.parse().expect("a spec");
    select(&spec, &Inventory::new(entries)).map(|selection| selection.id.to_string())
}

#[test]
fn auto_prefers_in_the_stated_order() {
    let all = || Backend::ALL.map(|backend| usable(backend, 0)).to_vec();
    for skip in 0..Backend::ALL.len() {
        let entries: Vec<_> = all().into_iter().skip(skip).collect();
        let expected = entries[0].id.to_string();
        assert_eq!(chosen("auto", entries.clone()), Ok(expected.clone()));
        // The order of the list does not matter.
        assert_eq!(chosen("auto", entries.into_iter().rev().collect()), Ok(expected));
    }
}

#[test]
fn auto_ranks_a_gpu_in_software_below_flex() {
    let entries = vec![software(Backend::Wgpu), usable(Backend::Flex, 0)];
    assert_eq!(chosen("auto", entries).as_deref(), Ok("flex"));
    assert_eq!(chosen("auto", vec![software(Backend::Wgpu)]).as_deref(), Ok("wgpu:0"));
}

#[test]
fn auto_tells_why_each_better_device_was_passed_over() {
    let entries =
        vec![not_compiled(Backend::Cuda), absent(Backend::Wgpu), usable(Backend::Flex, 0)];
    let selection = select(&DeviceSpec::Auto, &Inventory::new(entries)).expect("flex");
    let rejected: Vec<_> = selection
        .rejected
        .iter()
        .map(|rejection| format!("{}: {}", rejection.id, rejection.reason))
        .collect();
    assert_eq!(rejected, ["cuda:0: not compiled in (cargo feature `cuda`)", "wgpu:0: no driver"]);
}

#[test]
fn an_explicit_choice_never_falls_back() {
    let entries =
        || vec![not_compiled(Backend::Cuda), absent(Backend::Wgpu), usable(Backend::Flex, 0)];
    let message = chosen("cuda:0", entries()).expect_err("refused").to_string();
    assert_eq!(message, "device `cuda:0` needs the cargo feature `cuda`");
    let message = chosen("wgpu", entries()).expect_err("refused").to_string();
    assert_eq!(message, "device `wgpu` is not usable: no driver");
}

#[test]
fn an_index_beyond_the_last_names_the_range() {
    let entries = vec![usable(Backend::Cuda, 0), usable(Backend::Cuda, 1)];
    assert_eq!(chosen("cuda:1", entries.clone()).as_deref(), Ok("cuda:1"));
    let message = chosen("cuda:2", entries).expect_err("refused").to_string();
    assert!(message.contains("0 to 1"), "{message}");
}

#[test]
fn cpu_means_a_backend_that_computes_there() {
    let entries = vec![usable(Backend::Cuda, 0), usable(Backend::Flex, 0)];
    assert_eq!(chosen("cpu", entries).as_deref(), Ok("flex"));
    let refused = chosen("cpu", vec![usable(Backend::Cuda, 0)]).expect_err("no CPU backend");
    assert!(refused.to_string().contains("cargo feature `flex`"), "{refused}");
}

#[test]
fn nothing_to_choose_from_is_an_error() {
    assert_eq!(chosen("auto", vec![not_compiled(Backend::Flex)]), Err(DeviceError::Nothing));
}
