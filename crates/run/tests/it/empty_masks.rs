//! Masks of which none has a label but that of the background.

use std::fs;
use std::path::Path;

use updraft_data::{Raster, Volume, write_volume};
use updraft_run::Opening;

use crate::plans::read_with;

const PATCHES: &str = "task = \"image-to-image\"\n\
    [data]\npatch = [16, 16]\npatches = 4\ntarget = \"labels\"\nlabels = \"foreground\"\n\
    [model]\nfilters = [2, 4]\n[train]\nepochs = 1\nbatch = 4\n";

/// Writes a picture of one channel.
fn save(path: &Path, value: impl Fn(usize) -> u8) {
    let raster = Raster::try_new(1, &[32, 32], (0..1024).map(value).collect::<Vec<_>>());
    let volume = Volume::try_new("picture", vec![raster.expect("a raster")], [None; 3]);
    let volume = volume.expect("a volume");
    write_volume(path, &volume, &Default::default()).expect("written");
}

/// Opens two training images and a test image, with masks that have a foreground or not.
fn opened(sets: &[&str], has_foreground: [bool; 3]) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut rows = "input,labels,split\n".to_owned();
    for (image, has_foreground) in has_foreground.into_iter().enumerate() {
        let (input, mask) = (format!("{image}.tif"), format!("{image}-mask.tif"));
        save(&dir.path().join(&input), |at| (at * (image + 7) % 251) as u8);
        save(&dir.path().join(&mask), |at| u8::from(has_foreground && at % 32 < 9));
        let split = if image == 2 { "test" } else { "train" };
        rows += &format!("{input},{mask},{split}\n");
    }
    fs::write(dir.path().join("volumes.csv"), rows).expect("written");
    let own = format!("data.dir={:?}", dir.path());
    let plan = read_with(PATCHES, &[&[own.as_str()], sets].concat()).expect("valid").plan;
    let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
    plan.task.open(&plan, opening).map(drop).map_err(|error| error.to_string())
}

#[test]
fn training_masks_of_background_only_are_refused() {
    for sets in [&[][..], &["data.foreground={share=0.5, above=0.0}"]] {
        let error = opened(sets, [false, false, true]).expect_err("refused");
        assert!(error.contains("every label of the training masks is 0"), "{error}");
        opened(sets, [false, true, false]).expect("some foreground");
    }
}
