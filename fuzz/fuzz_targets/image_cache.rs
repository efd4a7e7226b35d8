//! Arbitrary bytes instead of a cache file of decoded images: never used, always rebuilt.
#![no_main]

use libfuzzer_sys::fuzz_target;
use updraft_data::{Cue, FileImages, GeneratedConfig, GeneratedImages, ImageSource};

fuzz_target!(|bytes: &[u8]| {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    let source = GeneratedImages::try_new(GeneratedConfig::new(Cue::Color, 4).with_size(16, 16));
    let source = source.expect("valid settings");
    let (images, _) =
        FileImages::open(&source, None, file.path(), 1, &mut |_| {}).expect("made anew");
    assert_eq!(images.read(0).expect("whole"), source.read(0).expect("drawn"));
});
