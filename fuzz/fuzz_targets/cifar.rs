//! Any bytes as a file of CIFAR records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use updraft_data::{CifarLabels, CifarRecords};

fuzz_target!(|bytes: &[u8]| {
    for labels in [CifarLabels::Ten, CifarLabels::Fine, CifarLabels::Coarse] {
        let mut records = CifarRecords::default();
        if records.extend(bytes, labels).is_ok() {
            assert_eq!(records.pixels.len(), 3072 * records.labels.len());
        }
    }
});
