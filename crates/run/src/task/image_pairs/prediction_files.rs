//! Checks that a prediction does not overwrite its own input or another of its files.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use updraft_data::{FileIdentity, TiffCompression, TiffWriteConfig, tiff_software};

use crate::error::RunError;
use crate::irregular_output::refuse_irregular;
use crate::task::FilePrediction;

/// Voxels of a window beyond which a batch of one does not fit into the memory of common machines.
const MOST_VOXELS: usize = 1 << 26;

/// The program in the files of predictions: a file without it was written by another one.
const SOFTWARE: &str = "updraft predict";

/// How the files of predictions are written.
pub(in crate::task) const TIFF: TiffWriteConfig =
    TiffWriteConfig { compression: TiffCompression::None, big: None, software: Some(SOFTWARE) };

/// The error of an option for masks beside a prediction of values, whose channels are all written.
pub(in crate::task) fn refuse_kept_channels() -> RunError {
    let reason = "the outputs of all classes are of masks, and the prediction has values: leave out \
                  --keep-channels";
    RunError::Unusable { reason: reason.to_owned() }
}

/// Refuses a prediction that would destroy one of its own files, or one that no prediction has written,
/// or whose windows are too large.
pub(in crate::task) fn check(request: &FilePrediction) -> Result<(), RunError> {
    let mut others = vec![("the input", FileIdentity::of(&request.input))];
    let truth = request.truth.as_deref();
    others.extend(truth.map(|truth| ("the ground truth", FileIdentity::of(truth))));
    let with = request.compare_with.as_deref();
    others.extend(with.map(|with| ("the prediction to compare with", FileIdentity::of(with))));
    let mut written: Vec<(&str, &Path)> = vec![("the output", &request.output)];
    if let Some(files) = &request.components {
        written.push(("the components", &files.labels));
        written.push(("the table of components", &files.table));
    }
    for (what, path) in written {
        let own = FileIdentity::of(path);
        if let Some((other, _)) = others.iter().find(|(_, other)| *other == own) {
            let reason = format!(
                "{what} and {other} are one file, `{}`, which would be overwritten; name another",
                path.display()
            );
            return Err(RunError::Unusable { reason });
        }
        others.push((what, own));
    }
    let files = request.components.as_ref();
    let all =
        [Some(&request.output), files.map(|files| &files.labels), files.map(|files| &files.table)];
    if let Some(folder) = all.into_iter().flatten().find(|path| path.is_dir()) {
        let reason = format!("`{}` is a folder; name a file to write", folder.display());
        return Err(RunError::Unusable { reason });
    }
    all.into_iter().flatten().try_for_each(|path| refuse_irregular(path))?;
    let images = [Some(&request.output), files.map(|files| &files.labels)];
    if let Some(other) = images.into_iter().flatten().find(|path| is_other_file(path)) {
        let reason = format!(
            "`{}` exists, is not a TIFF, and would be replaced by one; name another file",
            other.display()
        );
        return Err(RunError::Unusable { reason });
    }
    if let Some(other) = images.into_iter().flatten().find(|path| !is_tiff(path)) {
        let reason = format!(
            "`{}` does not end in .tif or .tiff, and an OME-TIFF is written; name another file",
            other.display()
        );
        return Err(RunError::Unusable { reason });
    }
    for image in images.into_iter().flatten() {
        if !is_replaceable(image)? {
            let reason = format!(
                "`{}` exists and was not written by `predict`; name another file, or remove it",
                image.display()
            );
            return Err(RunError::Unusable { reason });
        }
    }
    let window = request.window.as_deref().unwrap_or_default();
    let voxels = window.iter().fold(1_usize, |all, side| all.saturating_mul(*side));
    if voxels > MOST_VOXELS {
        let reason = format!(
            "the window is {window:?}, {voxels} voxels; it must have at most {MOST_VOXELS}"
        );
        return Err(RunError::Unusable { reason });
    }
    Ok(())
}

fn is_tiff(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| extension == "tif" || extension == "tiff")
}

/// Whether the file exists and is not a TIFF, so that no prediction has written it.
fn is_other_file(path: &Path) -> bool {
    // Opening a pipe would block.
    if !path.is_file() {
        return false;
    }
    let mut start = [0; 2];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && !matches!(&start, b"II" | b"MM")
}

/// Whether a prediction has written a file; `true` for what has no content to lose: no file, or an
/// empty one.
///
/// # Errors
/// If the file cannot be read.
fn is_replaceable(path: &Path) -> Result<bool, RunError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > 0 => {
            let found = tiff_software(path).map_err(|cause| RunError::io("read", path, cause))?;
            Ok(found.as_deref() == Some(SOFTWARE))
        }
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use updraft_data::{Raster, Volume, write_volume};

    use super::*;
    use crate::task::ComponentFiles;

    #[test]
    fn no_file_of_a_prediction_may_be_another() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("a")).expect("made");
        fs::write(path("in.tif"), "").expect("written");
        let request = |out: &str, labels: &str, table: &str, truth: &str| {
            let mut request = FilePrediction::new(path("in.tif"), path(out));
            let (labels, table) = (path(labels), path(table));
            request.components = Some(ComponentFiles { labels, table });
            request.truth = Some(path(truth));
            check(&request).map_err(|error| error.to_string())
        };
        assert_eq!(request("out.tif", "labels.tif", "labels.csv", "truth.tif"), Ok(()));
        for (out, labels, table, truth, said) in [
            ("in.tif", "l.tif", "l.csv", "t.tif", "the output and the input are one file"),
            ("a/../in.tif", "l.tif", "l.csv", "t.tif", "the output and the input"),
            ("o.tif", "o.tif", "o.csv", "t.tif", "the components and the output"),
            ("o.tif", "l.csv", "l.csv", "t.tif", "the table of components and the components"),
            ("o.tif", "in.tif", "in.csv", "t.tif", "the components and the input"),
            ("t.tif", "l.tif", "l.csv", "t.tif", "the output and the ground truth"),
        ] {
            let refused = request(out, labels, table, truth).expect_err(out);
            assert!(refused.starts_with(said), "{refused}");
        }
        fs::write(path("plan.toml"), "task = 1").expect("written");
        let refused = request("plan.toml", "l.tif", "l.csv", "t.tif").expect_err("another kind");
        assert!(refused.contains("plan.toml` exists, is not a TIFF"), "{refused}");
        fs::write(path("old.tif"), "").expect("written");
        assert_eq!(request("old.tif", "l.tif", "l.csv", "t.tif"), Ok(()));
        let raster = Raster::try_new(1, &[4, 5], vec![7_u8; 20]).expect("a raster");
        let volume = Volume::try_new("v", vec![raster], [None; 3]).expect("a volume");
        for (config, is_own) in [(TiffWriteConfig::default(), false), (TIFF, true)] {
            write_volume(path("old.tif"), &volume, &config).expect("written");
            for [out, labels] in [["old.tif", "l.tif"], ["o.tif", "old.tif"]] {
                match request(out, labels, "l.csv", "t.tif") {
                    Ok(()) => assert!(is_own, "a file of the user would be replaced"),
                    Err(refused) => {
                        let words =
                            "old.tif` exists and was not written by `predict`; name another";
                        assert!(!is_own && refused.contains(words), "{refused}");
                    }
                }
            }
        }
        let refused = request("a", "l.tif", "l.csv", "t.tif").expect_err("a folder");
        assert!(refused.ends_with("a` is a folder; name a file to write"), "{refused}");
        let mut large = FilePrediction::new(path("in.tif"), path("o.tif"));
        large.window = Some(vec![20_000, 20_000]);
        let refused = check(&large).expect_err("large").to_string();
        assert!(refused.contains("[20000, 20000], 400000000 voxels"), "{refused}");
    }
}
