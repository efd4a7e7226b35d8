//! This machine, whatever it has.

use updraft_device::{Backend, DeviceSpec, State, applied, open, probe, select};

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
    let device = open(&selection).expect("it was just found");
    let sum = burn::tensor::Tensor::<1>::ones([4], &device).sum().into_scalar::<f32>();
    assert!((sum - 4.0).abs() < 1e-6);
    assert!(!applied(&device).default_float.is_empty());
}

#[test]
fn the_json_form_says_its_version() {
    let value = serde_json::to_value(probe()).expect("plain data");
    assert_eq!(value["version"], 1);
    assert!(value["entries"][0]["id"].is_string(), "{value}");
}
