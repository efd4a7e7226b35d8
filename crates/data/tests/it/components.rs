//! Components of masks, as scikit-image labels them.

use updraft_data::{
    ComponentConfig, Connectivity, OpenConfig, Pixels, Raster, TiffWriteConfig, Volume,
    label_components, open_volume,
};

use crate::files::message;

/// What `golden/components.py` labels: `(7 z² + 5 y² + 3 x² + z y x) mod 5 < 2`, of class 1, and 2
/// where x is above 8.
fn mask() -> Volume {
    let mut values = Vec::new();
    for z in 0..5_usize {
        for y in 0..9_usize {
            for x in 0..13_usize {
                let is_set = (7 * z * z + 5 * y * y + 3 * x * x + z * y * x) % 5 < 2;
                values.push(if is_set { 1 + u8::from(x > 8) } else { 0 });
            }
        }
    }
    let raster = Raster::try_new(1, &[5, 9, 13], values).unwrap();
    Volume::try_new("mask", vec![raster.clone(), raster], [Some(2.0), Some(0.5), Some(0.5)])
        .unwrap()
}

fn golden(key: &str) -> Vec<u64> {
    let text = include_str!("golden/components.json");
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    all[key].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

#[test]
fn labels_and_sizes_are_those_of_scikit_image() {
    let folder = tempfile::tempdir().unwrap();
    for (connectivity, name) in [(Connectivity::Faces, "faces"), (Connectivity::Corners, "corners")]
    {
        let config = ComponentConfig { connectivity, least_voxels: 0 };
        let components = label_components(&mask(), config).unwrap();
        let labels = components.read(&mask()).unwrap();
        let expected = golden(&format!("{name}_labels"));
        for frame in labels.frames() {
            let Pixels::U16(labels) = frame.pixels() else { panic!("no u16") };
            assert!(labels.iter().map(|&label| u64::from(label)).eq(expected.iter().copied()));
        }
        let sizes = golden(&format!("{name}_sizes"));
        let table = components.table();
        assert_eq!(table.len(), 2 * sizes.len());
        for (at, component) in table.iter().enumerate() {
            let voxels = sizes[at % sizes.len()];
            assert_eq!((component.frame, component.voxels), (at / sizes.len(), voxels));
            assert_eq!(usize::from(component.label), at % sizes.len() + 1);
            assert_eq!(component.size_um, Some(voxels as f64 * 0.5));
            assert_eq!(component.class, if component.first[2] > 8 { 2 } else { 1 });
            assert!((0..3).all(|axis| {
                let range = component.first[axis] as f64..=component.last[axis] as f64;
                range.contains(&component.center[axis])
            }));
        }
        let path = folder.path().join("labels.ome.tif");
        components.write(&mask(), &path, &TiffWriteConfig::default()).unwrap();
        let file = open_volume(&path, &OpenConfig::default()).unwrap();
        assert_eq!(file.spec().voxel_um, [Some(2.0), Some(0.5), Some(0.5)]);
        assert_eq!(Volume::load(&*file).unwrap().frames(), labels.frames());
        components.write_csv(folder.path().join("table.csv")).unwrap();
        let text = std::fs::read_to_string(folder.path().join("table.csv")).unwrap();
        assert_eq!(text.lines().count(), 1 + table.len());
        assert!(text.starts_with("frame,label,class,voxels,size_um,center_z,"), "{text}");
    }
}

#[test]
fn small_components_become_background() {
    let config = ComponentConfig { connectivity: Connectivity::Faces, least_voxels: 3 };
    let components = label_components(&mask(), config).unwrap();
    let kept = golden("faces_sizes").into_iter().filter(|&size| size >= 3).count();
    assert_eq!(components.table().len(), 2 * kept);
    assert!(components.table().iter().all(|component| component.voxels >= 3));
    let sum: u64 = components.table().iter().map(|component| component.voxels).sum();
    let labels = components.read(&mask()).unwrap();
    let set: usize = labels
        .frames()
        .iter()
        .map(|frame| {
            let Pixels::U16(labels) = frame.pixels() else { panic!("no u16") };
            labels.iter().filter(|&&label| label > 0).count()
        })
        .sum();
    assert_eq!(set as u64, sum);
}

#[test]
fn what_is_no_mask_is_named() {
    let raster = Raster::try_new(1, &[2, 2], vec![0.0_f32; 4]).unwrap();
    let volume = Volume::try_new("image", vec![raster], [None; 3]).unwrap();
    let error = label_components(&volume, ComponentConfig::default()).unwrap_err();
    assert_eq!(
        message(&error),
        "`image`: the mask is f32 1 channel of 2x2; expected 1 channel of u8 or u16"
    );
}
