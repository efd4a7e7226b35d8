//! Devices as text.

use proptest::prelude::*;
use updraft_device::{Backend, DeviceSpec};

fn any_spec() -> impl Strategy<Value = DeviceSpec> {
    let exact = (0..Backend::ALL.len(), proptest::option::of(any::<usize>()))
        .prop_map(|(at, index)| DeviceSpec::Exact { backend: Backend::ALL[at], index });
    prop_oneof![Just(DeviceSpec::Auto), Just(DeviceSpec::Cpu), exact]
}

proptest! {
    #[test]
    fn every_spec_survives_being_printed_then_parsed(spec in any_spec()) {
        prop_assert_eq!(spec.to_string().parse::<DeviceSpec>(), Ok(spec));
        let json = serde_json::to_string(&spec).expect("text");
        prop_assert_eq!(serde_json::from_str::<DeviceSpec>(&json).expect("text"), spec);
    }

    #[test]
    fn any_text_is_parsed_or_refused_with_itself(text in ".{0,12}") {
        if let Err(error) = text.parse::<DeviceSpec>() {
            prop_assert!(error.to_string().contains(&text));
        }
    }
}

#[test]
fn what_is_no_device_is_refused() {
    for text in ["", "gpu", "cuda:", "cuda:+1", "cuda:-1", "cuda:99999999999999999999", "auto:0"] {
        assert!(text.parse::<DeviceSpec>().is_err(), "{text}");
    }
}
