//! Any bytes as an IDX file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use updraft_data::IdxArray;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(array) = IdxArray::parse(bytes) {
        // An axis of length 0 makes an array without values, whatever the others claim.
        let is_empty = array.shape.contains(&0);
        assert!(is_empty || array.shape.iter().product::<usize>() <= bytes.len());
    }
});
