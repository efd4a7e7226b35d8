//! Generated cells as files with manifests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::AtomicFile;
use crate::cells::{CellsConfig, draw_cells};
use crate::error::DataError;
use crate::progress::{Progress, ProgressUnit};
use crate::volume::{TiffCompression, TiffWriteConfig, write_volume};

/// The files that [`write_cells`] wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellFiles {
    /// A manifest of transmitted light, with fluorescence to predict.
    pub label_free: PathBuf,
    /// A manifest of fluorescence, with the class of every voxel as mask.
    pub segmentation: PathBuf,
}

/// Draws fields of cells and writes them as OME-TIFFs, with a manifest for each task: training data
/// without a download.
///
/// The first fields are in split `train`, the last `test` ones in split `test`.
///
/// # Errors
/// [`DataError::Setting`] for no fields to train on, and as [`draw_cells`]; [`DataError::Write`].
pub fn write_cells(
    folder: impl AsRef<Path>,
    config: &CellsConfig,
    fields: usize,
    test: usize,
    progress: &mut dyn FnMut(Progress),
) -> Result<CellFiles, DataError> {
    let folder = folder.as_ref();
    if fields <= test || fields > 100_000 {
        let expected = format!("above {test}, those to test with, and at most 100000");
        return Err(DataError::Setting { name: "fields", value: fields.to_string(), expected });
    }
    fs::create_dir_all(folder)
        .map_err(|cause| DataError::Write { path: folder.to_owned(), cause })?;
    let tiff =
        TiffWriteConfig { compression: TiffCompression::Deflate, ..TiffWriteConfig::default() };
    let mut label_free = "position,split,input.transmitted,target.fluorescence\n".to_owned();
    let mut segmentation = "position,split,input.fluorescence,labels\n".to_owned();
    for field in 0..fields {
        let images = draw_cells(config, field)?;
        let position = format!("field{field:03}");
        let file = |what: &str| format!("{position}_{what}.ome.tif");
        for (what, volume) in [
            ("transmitted", &images.transmitted),
            ("fluorescence", &images.fluorescence),
            ("classes", &images.classes),
            ("instances", &images.instances),
        ] {
            write_volume(folder.join(file(what)), volume, &tiff)?;
        }
        let split = if field < fields - test { "train" } else { "test" };
        let [light, color, classes] = ["transmitted", "fluorescence", "classes"].map(file);
        label_free += &format!("{position},{split},{light},{color}\n");
        segmentation += &format!("{position},{split},{color},{classes}\n");
        let (done, total) = (field as u64 + 1, fields as u64);
        progress(Progress { done, total, unit: ProgressUnit::Images });
    }
    let write = |name: &str, text: &str| -> Result<PathBuf, DataError> {
        let path = folder.join(name);
        let mut file = AtomicFile::create(&path)?;
        file.write(text.as_bytes())?;
        file.finish()?;
        Ok(path)
    };
    Ok(CellFiles {
        label_free: write("label-free.csv", &label_free)?,
        segmentation: write("segmentation.csv", &segmentation)?,
    })
}
