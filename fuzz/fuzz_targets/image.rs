//! Any bytes as a JPEG, PNG or TIFF.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(image) = updraft_data::decode(bytes, "fuzz") {
        assert_eq!(image.pixels().len(), 3 * image.height() * image.width());
    }
});
