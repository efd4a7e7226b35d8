//! Any bytes as a TIFF, `BigTIFF` or OME-TIFF of several pages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use updraft_data::{OpenConfig, Region, TiffVolume, VolumeSource};

fuzz_target!(|bytes: &[u8]| {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    let Ok(volume) = TiffVolume::open(file.path(), &OpenConfig::default()) else { return };
    let spec = *volume.spec();
    // No byte of a file becomes more than 3641, and none is part of two strips.
    let most = 3641 * bytes.len() as u64;
    assert!(spec.bytes().is_some_and(|claimed| claimed <= most));
    let [slices, rows, columns] = spec.sides();
    for frame in 0..spec.frames.min(2) {
        let origin = [slices - 1, rows / 2, columns / 2];
        let sides = [1, rows.div_ceil(2).min(64), columns.div_ceil(2).min(64)];
        if let Ok(raster) = volume.read(&Region { frame, origin, sides }) {
            assert_eq!(raster.spec().height, sides[1]);
        }
    }
});
