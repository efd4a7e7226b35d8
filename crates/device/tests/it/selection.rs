//! Choosing from synthetic inventories.

use proptest::prelude::*;
use updraft_device::{
    Backend, DeviceError, DeviceId, DeviceSpec, Inventory, InventoryEntry, State, select,
    select_for_rank,
};

fn entry(backend: Backend, index: usize, state: State) -> InventoryEntry {
    InventoryEntry::new(DeviceId { backend, index }, state)
}

fn usable(backend: Backend, index: usize) -> InventoryEntry {
    entry(backend, index, State::Usable)
}

fn software(backend: Backend) -> InventoryEntry {
    let mut entry = usable(backend, 0);
    entry.is_software = true;
    entry
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
    let entries = vec![software(Backend::Vulkan), usable(Backend::Flex, 0)];
    let selection = select(&DeviceSpec::Auto, &Inventory::new(entries)).expect("flex");
    assert!(selection.rejected[0].reason.contains("ranks below flex"), "{selection:?}");
}

#[test]
fn auto_reports_why_each_better_device_was_not_chosen() {
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
    assert_eq!(
        message,
        "device `wgpu` is not usable: no driver; install or update its driver, or choose another \
         device: `probe` lists them"
    );
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
fn a_device_that_cannot_be_opened_is_distinguished_from_a_missing_one() {
    let entries = vec![usable(Backend::Cuda, 0), entry(Backend::Cuda, 1, busy())];
    assert_eq!(chosen("cuda", entries.clone()).as_deref(), Ok("cuda:0"));
    let message = chosen("cuda:1", entries.clone()).expect_err("refused").to_string();
    assert!(message.contains("taken by another process"), "{message}");
    let message = chosen("cuda:2", entries).expect_err("refused").to_string();
    assert!(message.contains("0 to 1"), "{message}");
}

fn busy() -> State {
    State::Absent { reason: "taken by another process".to_owned() }
}

fn any_inventory() -> impl Strategy<Value = Vec<InventoryEntry>> {
    let any_entry = (0..4_usize, any::<bool>()).prop_map(|(state, is_software)| {
        let state = match state {
            0 => State::NotCompiled { feature: "x".to_owned() },
            1 => State::Absent { reason: "no driver".to_owned() },
            _ => State::Usable,
        };
        (state, is_software)
    });
    // Two devices of each backend at most, in any order.
    let places = Backend::ALL.into_iter().flat_map(|backend| [(backend, 0), (backend, 1)]);
    let places: Vec<_> = places.collect();
    proptest::sample::subsequence(places, 0..=16)
        .prop_shuffle()
        .prop_flat_map(move |places| {
            let states = proptest::collection::vec(any_entry.clone(), places.len());
            (Just(places), states)
        })
        .prop_map(|(places, states)| {
            let made = places.into_iter().zip(states);
            made.map(|((backend, index), (state, is_software))| {
                let mut made = entry(backend, index, state);
                made.is_software = is_software;
                made
            })
            .collect()
        })
}

proptest! {
    #[test]
    fn auto_takes_the_best_that_computes_and_accounts_for_every_other(entries in any_inventory()) {
        let usable: Vec<_> =
            entries.iter().filter(|entry| entry.state == State::Usable).collect();
        let result = select(&DeviceSpec::Auto, &Inventory::new(entries.clone()));
        let Ok(selection) = result else {
            prop_assert_eq!(result, Err(DeviceError::Nothing));
            prop_assert!(usable.is_empty());
            return Ok(());
        };
        let rank = |entry: &InventoryEntry| (entry.is_software, entry.id);
        let best = usable.iter().map(|entry| rank(entry)).min();
        prop_assert_eq!(best.map(|(_, id)| id), Some(selection.id));
        let mut accounted: Vec<_> =
            selection.rejected.iter().map(|rejection| rejection.id).chain([selection.id]).collect();
        let mut looked_at: Vec<_> = entries.iter().map(|entry| entry.id).collect();
        accounted.sort();
        looked_at.sort();
        prop_assert_eq!(accounted, looked_at);
    }

    #[test]
    fn the_order_of_an_inventory_does_not_matter(entries in any_inventory(), at in 0..8_usize) {
        let reversed: Vec<_> = entries.iter().rev().cloned().collect();
        let (there, back) = (Inventory::new(entries), Inventory::new(reversed));
        let exact = DeviceSpec::Exact { backend: Backend::ALL[at], index: None };
        for spec in [DeviceSpec::Auto, DeviceSpec::Cpu, exact] {
            prop_assert_eq!(select(&spec, &there), select(&spec, &back));
        }
    }

    #[test]
    fn a_named_device_is_that_device_or_an_error(
        entries in any_inventory(),
        at in 0..8_usize,
        index in proptest::option::of(0..3_usize),
    ) {
        let backend = Backend::ALL[at];
        let spec = DeviceSpec::Exact { backend, index };
        let is_wanted = |entry: &InventoryEntry| {
            entry.id.backend == backend
                && index.is_none_or(|index| entry.id.index == index)
                && entry.state == State::Usable
        };
        let is_there = entries.iter().any(is_wanted);
        match select(&spec, &Inventory::new(entries)) {
            Ok(selection) => {
                prop_assert!(is_there);
                prop_assert_eq!(selection.id.backend, backend);
                prop_assert!(index.is_none_or(|index| selection.id.index == index));
            }
            Err(error) => {
                prop_assert!(!is_there);
                prop_assert!(error.to_string().contains(&spec.to_string()), "{}", error);
            }
        }
    }
}

#[test]
fn nothing_to_choose_from_is_an_error() {
    assert_eq!(chosen("auto", vec![not_compiled(Backend::Flex)]), Err(DeviceError::Nothing));
}

#[test]
fn processes_of_a_machine_take_its_devices_in_turn() {
    let chosen = |spec: &str, local_rank: usize| {
        let absent = entry(Backend::Cuda, 1, State::Absent { reason: "in use".to_owned() });
        let entries = vec![
            usable(Backend::Cuda, 0),
            absent,
            usable(Backend::Cuda, 2),
            software(Backend::Vulkan),
            usable(Backend::Flex, 0),
        ];
        let spec: DeviceSpec = spec.parse().expect("a spec");
        let selection = select_for_rank(&spec, &Inventory::new(entries), local_rank);
        selection.expect("a device").id.to_string()
    };
    let all = |spec: &str| [0, 1, 2, 3].map(|local_rank| chosen(spec, local_rank));
    assert_eq!(all("auto"), ["cuda:0", "cuda:2", "cuda:0", "cuda:2"]);
    assert_eq!(all("cuda"), all("auto"));
    assert_eq!(all("cuda:2"), ["cuda:2"; 4]);
    assert_eq!(all("cpu"), ["flex"; 4]);
    assert_eq!(all("vulkan"), ["vulkan:0"; 4]);
}
