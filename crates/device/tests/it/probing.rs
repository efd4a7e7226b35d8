//! Tests on every device of this machine that is compiled in.

use std::time::Duration;

use burn::tensor::{DType, Device, FloatDType, Tensor};
use updraft_device::{
    Backend, DeviceId, DeviceSpec, Inventory, InventoryEntry, MemoryOwner, PeakSampler, State,
    applied, clean_up, measure, open, probe, select,
};

/// Every usable device of this build, opened.
#[expect(clippy::print_stderr, reason = "tells why a test passed without a device")]
fn usable() -> Vec<(InventoryEntry, Device)> {
    let inventory = probe();
    let usable = inventory.entries.iter().filter(|entry| entry.state == State::Usable);
    if usable.clone().next().is_none() {
        eprintln!("skipped: this build reaches no device");
    }
    usable
        .map(|entry| {
            let DeviceId { backend, index } = entry.id;
            let spec = DeviceSpec::Exact { backend, index: Some(index) };
            let selection = select(&spec, &inventory).expect("it is usable");
            (entry.clone(), open(&selection).expect("it was just found"))
        })
        .collect()
}

#[test]
fn every_backend_has_an_entry_with_a_state() {
    let inventory = probe();
    for backend in Backend::ALL {
        let entry = inventory.entries.iter().find(|entry| entry.id.backend == backend);
        let entry = entry.expect("an entry a backend");
        assert_eq!(
            matches!(entry.state, State::NotCompiled { .. }),
            !backend.is_compiled(),
            "{backend}"
        );
        assert_eq!(entry.facts.is_some(), entry.state == State::Usable, "{backend}");
    }
}

#[test]
fn the_table_fits_eighty_columns() {
    let table = probe().table();
    assert!(table.lines().count() > Backend::ALL.len());
    for line in table.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn a_chosen_device_opens_then_computes() {
    let Ok(selection) = select(&DeviceSpec::Auto, &probe()) else {
        assert!(!Backend::Flex.is_compiled());
        return;
    };
    // A run's environment file contains the facts about its device.
    assert!(selection.facts.as_ref().is_some_and(|facts| !facts.dtypes.is_empty()));
    let device = open(&selection).expect("it was just found");
    let sum = Tensor::<1>::ones([4], &device).sum().into_scalar::<f32>();
    assert!((sum - 4.0).abs() < 1e-6);
    assert!(!applied(&device).default_float.is_empty());
}

#[test]
fn what_a_device_is_said_to_compute_it_computes() {
    for (entry, device) in usable() {
        let facts = entry.facts.expect("a usable device has facts");
        assert!(facts.dtypes.iter().any(|dtype| dtype.dtype == "f32" && dtype.computed));
        for dtype in facts.dtypes.iter().filter(|dtype| dtype.computed) {
            let float = match dtype.dtype.as_str() {
                "f64" => FloatDType::F64,
                "f32" => FloatDType::F32,
                "flex32" => FloatDType::Flex32,
                "f16" => FloatDType::F16,
                "bf16" => FloatDType::BF16,
                other => panic!("{other} is no float dtype"),
            };
            assert!(dtype.stored && device.supports_dtype(float), "{}", dtype.dtype);
            let ones = Tensor::<2>::ones([3, 5], (&device, DType::F32)).cast(float);
            let product = ones.clone().matmul(ones.transpose()).cast(FloatDType::F32);
            let sum = product.sum().into_scalar::<f32>();
            assert!((sum - 45.0).abs() < 1e-3, "{}: {sum}", dtype.dtype);
        }
    }
}

#[test]
fn a_device_on_the_processor_has_the_memory_of_the_machine() {
    let cpu = |(entry, _): &(InventoryEntry, Device)| entry.id.backend == Backend::Flex;
    for (entry, _) in usable().into_iter().filter(cpu) {
        let facts = entry.facts.expect("a usable device has facts");
        let (total, free) = (facts.memory_total_bytes, facts.memory_free_bytes);
        assert!(total.is_some_and(|total| total > 1 << 28), "{total:?}");
        assert!(free <= total, "{free:?} of {total:?}");
        assert!(!entry.is_software && facts.card.is_none() && facts.driver.is_none());
    }
}

#[test]
fn only_a_card_has_memory_of_its_own() {
    for (entry, _) in usable() {
        let on_processor = matches!(entry.id.backend, Backend::Flex | Backend::CubeclCpu);
        let expected = match on_processor || entry.is_software {
            true => MemoryOwner::Machine,
            false => MemoryOwner::Device,
        };
        assert_eq!(entry.facts.expect("facts").memory_owner, expected, "{}", entry.id);
    }
}

#[test]
fn memory_that_a_backend_does_not_report_is_none_and_never_zero() {
    for (entry, device) in usable() {
        let held = Tensor::<1>::ones([1 << 20], &device);
        let memory = clean_up(&device).expect("the device answers");
        match entry.id.backend {
            Backend::Flex => assert_eq!((memory.in_use_bytes, memory.reserved_bytes), (None, None)),
            _ => assert!(memory.in_use_bytes.is_some_and(|bytes| bytes >= 4 << 20), "{memory:?}"),
        }
        drop(held);
        let after = clean_up(&device).expect("the device answers");
        assert_eq!(after.in_use_bytes.is_some(), memory.in_use_bytes.is_some());
        // `None` on flex. Other tests of this process may use the device meanwhile, so that only what
        // the numbers mean is checked.
        assert!(after.in_use_bytes <= after.reserved_bytes, "{after:?}");
    }
}

#[test]
fn the_sampled_peak_sees_a_tensor_that_is_gone() {
    for (entry, device) in usable() {
        let sampler = PeakSampler::start(&device, Duration::from_millis(1)).expect("a thread");
        // In parts, because the memory of a device may exceed the largest buffer.
        let held: Vec<_> = (0..8).map(|_| Tensor::<1>::ones([8 << 20], &device)).collect();
        let ends = held.iter().map(|part| part.clone().narrow(0, 0, 1));
        let sum = Tensor::cat(ends.collect(), 0).sum().into_scalar::<f32>();
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
        let peak = sampler.stop().expect("the device answers");
        assert!(peak.samples > 2 && (sum - 8.0).abs() < 1e-6, "{peak:?}");
        let seen =
            if entry.id.backend == Backend::Flex { peak.resident_bytes } else { peak.in_use_bytes };
        // Systems that do not report the memory of a process have no peak either.
        assert!(seen.is_none_or(|bytes| bytes >= 256 << 20), "{peak:?}");
        assert!(seen.is_some() || cfg!(not(target_os = "linux")), "{peak:?}");
    }
}

#[test]
fn a_measured_rate_lies_between_its_slowest_and_fastest_run() {
    for (entry, device) in usable() {
        let measured = measure(&device).expect("the device computes");
        let computed = entry.facts.expect("facts").dtypes.into_iter().filter(|it| it.computed);
        let dtypes: Vec<_> = measured.matmul.iter().map(|rate| rate.dtype.clone()).collect();
        assert_eq!(dtypes, computed.map(|it| it.dtype).collect::<Vec<_>>());
        let matmul = measured.matmul.iter().map(|rate| rate.gflops);
        for spread in matmul.chain([measured.copy_gbytes_per_s]) {
            assert!(spread.low > 0.0 && spread.runs >= 5, "{spread:?}");
            assert!(spread.low <= spread.median && spread.median <= spread.high, "{spread:?}");
            assert!(spread.high.is_finite(), "{spread:?}");
        }
    }
}

#[test]
fn the_json_form_says_its_version_and_every_key_is_documented() {
    let mut inventory = probe();
    if let Some((entry, device)) = usable().into_iter().next() {
        let measured = measure(&device).expect("the device computes");
        let at = inventory.entries.iter().position(|other| other.id == entry.id);
        inventory.entries[at.expect("it was just found")].measured = Some(measured);
    }
    let value = serde_json::to_value(&inventory).expect("plain data");
    assert_eq!(value["version"], 2);
    assert!(value["entries"][0]["id"].is_string(), "{value}");
    let page = include_str!("../../README.md");
    let mut keys = Vec::new();
    collect_keys(&value, &mut keys);
    assert!(keys.len() > 10, "{keys:?}");
    for key in keys {
        assert!(page.contains(&format!("`{key}`")), "`{key}` is not in README.md");
    }
}

fn collect_keys(value: &serde_json::Value, keys: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            keys.extend(fields.keys().cloned());
            fields.values().for_each(|value| collect_keys(value, keys));
        }
        serde_json::Value::Array(values) => {
            values.iter().for_each(|value| collect_keys(value, keys));
        }
        _ => {}
    }
}

#[test]
fn an_empty_inventory_measures_nothing() {
    let mut inventory = Inventory::new(Vec::new());
    assert_eq!(inventory.measure(), Ok(()));
    assert!(inventory.cards.is_empty());
}
