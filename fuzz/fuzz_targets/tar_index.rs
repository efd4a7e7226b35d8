//! Any bytes as a tar archive of images.
#![no_main]

use libfuzzer_sys::fuzz_target;
use updraft_data::{ImageSource, TarImages};

fuzz_target!(|bytes: &[u8]| {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    if let Ok(images) = TarImages::open_within(file.path(), 1 << 24, &mut |_| {}) {
        for index in 0..images.len().min(4) {
            let _ = images.read(index);
        }
    }
});
