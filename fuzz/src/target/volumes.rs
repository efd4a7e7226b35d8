//! TIFFs of several pages with or without OME headers, and lists of volumes.

use std::fs;

use updraft_data::{
    Delimiter, OpenConfig, Raster, Region, TiffVolume, TiffWriteConfig, Volume, VolumeManifest,
    VolumeSource, write_volume,
};

use super::pictures::png;
use crate::scratch;

/// Any bytes as a TIFF, `BigTIFF` or OME-TIFF of several pages.
pub(super) fn volume(bytes: &[u8]) {
    let Ok(volume) = TiffVolume::open(scratch::file(bytes), &OpenConfig::default()) else { return };
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
}

pub(super) fn volume_seeds() -> Vec<Vec<u8>> {
    let planes = vec![7_u16; 2 * 2 * 3 * 4];
    let raster = Raster::from_planes(2, &[2, 3, 4], planes).expect("as many values");
    let volume = Volume::try_new("cells", vec![raster], [Some(0.3), None, None]).expect("whole");
    let path = scratch::folder("volume").join("a.tif");
    write_volume(&path, &volume, &TiffWriteConfig::default()).expect("written");
    vec![scratch::read(&path)]
}

pub(super) fn manifest(bytes: &[u8]) {
    let folder = scratch::folder("volumes");
    fs::write(folder.join("a.png"), png(4, 4)).expect("written");
    fs::write(folder.join("list.csv"), bytes).expect("written");
    if let Ok(list) = VolumeManifest::open(folder.join("list.csv"), Delimiter::Comma) {
        let _ = list.hold_out_positions(0.3, 1);
        if list.rows().len() <= 4 {
            let _ = list.pairs(None, &OpenConfig::default());
        }
    }
}

pub(super) fn manifest_seeds() -> Vec<Vec<u8>> {
    [
        "input,target,split\na.png,a.png,train\na.png,a.png,train\n",
        "input.a,input.b,labels,position,t,z,y,x\na.png,a.png,a.png,p,0:1,,0:2,1:3\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
