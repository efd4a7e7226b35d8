//! Any bytes as the archive that CIFAR comes in, gzipped or not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use updraft_data::{CifarFiles, CifarLabels, CifarPart, ImageSource};

fuzz_target!(|bytes: &[u8]| {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    let Ok(files) = CifarFiles::open(file.path(), &mut |_| {}) else { return };
    for labels in [CifarLabels::Ten, CifarLabels::Fine, CifarLabels::Coarse] {
        for part in [CifarPart::Train, CifarPart::Test] {
            if let Ok(images) = files.images(labels, part) {
                assert_eq!(images.classes().len(), labels.classes());
            }
        }
    }
});
