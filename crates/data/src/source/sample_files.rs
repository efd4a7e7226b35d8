//! Samples in files: pictures and their targets, decoded on demand.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use crate::decode::{MAX_DECODER_BYTES, decode_raster};
use crate::digest::Digest;
use crate::error::{DataError, DecodeError, Place};
use crate::file_state::FileState;
use crate::raster::{Raster, RasterSpec, joined};
use crate::sample::{Sample, SampleTarget};
use crate::source::folder::{MAX_FILE_BYTES, read_file};
use crate::source::sample_source::SampleSource;
use crate::tiff_pages::tiff_has_second_page;
use crate::volume::{OpenConfig, TiffVolume, VolumeSource};

/// The files of one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSample {
    /// PNG or TIFF files of equal size and pixel type, at least one: their channels follow each
    /// other, such as those of a microscope that writes one file per channel.
    pub inputs: Vec<PathBuf>,
    /// Its target.
    pub target: FileTarget,
}

/// The target of one sample in files.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FileTarget {
    /// None.
    None,
    /// A class, counted from 0.
    Class(usize),
    /// Some values.
    Values(Vec<f32>),
    /// An image to predict, in files like those of an input.
    Image(Vec<PathBuf>),
    /// A mask in a file of one channel.
    Labels(PathBuf),
}

/// Pictures in PNG and TIFF files with their targets, read and decoded on demand.
///
/// Channels and values are those of the files: gray, RGB, with or without alpha, of 8 or 16 bits;
/// a palette becomes RGB, and so does a JPEG. A TIFF of several pages is a volume with a slice on
/// each, or what its OME header says.
/// The fingerprint covers the names and lengths of the files and the targets that are numbers, not
/// the contents of the files.
#[derive(Debug, Clone)]
pub struct SampleFiles {
    samples: Vec<FileSample>,
    fingerprint: String,
    state: String,
}

impl SampleFiles {
    /// Lists samples; every file must exist.
    ///
    /// # Errors
    /// [`DataError::Empty`] for no samples, [`DataError::Setting`] for a sample or an image to
    /// predict without files, [`DataError::Open`] for a file that does not exist.
    pub fn try_new(samples: Vec<FileSample>) -> Result<Self, DataError> {
        if samples.is_empty() {
            return Err(DataError::Empty);
        }
        let mut digest = Digest::new("updraft samples in files").number(samples.len());
        let mut states = Digest::new("updraft states of files");
        for sample in &samples {
            digest = describe_files("inputs", &sample.inputs, digest, &mut states)?;
            digest = match &sample.target {
                FileTarget::None => digest.text("no target"),
                FileTarget::Class(class) => digest.text("class").number(*class),
                FileTarget::Values(values) => {
                    let digest = digest.text("values").number(values.len());
                    values.iter().fold(digest, |digest, &value| digest.float(value))
                }
                FileTarget::Image(files) => {
                    describe_files("target image", files, digest, &mut states)?
                }
                FileTarget::Labels(file) => {
                    describe_files("labels", std::slice::from_ref(file), digest, &mut states)?
                }
            };
        }
        let fingerprint = digest.hex();
        let state = states.text(&fingerprint).hex();
        Ok(Self { samples, fingerprint, state })
    }

    /// The files of one raster, one channel after the other.
    fn raster(&self, index: usize, files: &[PathBuf]) -> Result<Raster<'static>, DataError> {
        let mut rasters = Vec::with_capacity(files.len());
        for file in files {
            let raster = read_raster(file, index)?;
            let first = rasters.first().map_or(&raster, |first| first);
            let (expected, got) = (one_channel(first), one_channel(&raster));
            if expected != got {
                let expected = format!("{expected}, as `{}` has", files[0].display());
                let (place, got) = (place(file, index), got.to_string());
                return Err(DataError::Sample { place, expected, got });
            }
            rasters.push(raster);
        }
        Ok(joined(rasters))
    }
}

impl SampleSource for SampleFiles {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn name(&self, index: usize) -> String {
        self.samples[index].inputs[0].display().to_string()
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        let sample = &self.samples[index];
        let raster = self.raster(index, &sample.inputs)?;
        let target = match &sample.target {
            FileTarget::None => SampleTarget::None,
            FileTarget::Class(class) => SampleTarget::Class(*class),
            FileTarget::Values(values) => SampleTarget::Values(Cow::Borrowed(values)),
            FileTarget::Image(files) => SampleTarget::Image(self.raster(index, files)?),
            FileTarget::Labels(file) => SampleTarget::Labels(read_raster(file, index)?),
        };
        Ok(Sample { raster, target })
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn stored_state(&self) -> String {
        self.state.clone()
    }
}

/// Adds names and lengths of files, and their states to `states`.
fn describe_files(
    kind: &'static str,
    files: &[PathBuf],
    digest: Digest,
    states: &mut Digest,
) -> Result<Digest, DataError> {
    if files.is_empty() {
        let (value, expected) = ("empty".to_owned(), "at least one file".to_owned());
        return Err(DataError::Setting { name: kind, value, expected });
    }
    files.iter().try_fold(digest.text(kind).number(files.len()), |digest, file| {
        let open = |cause| DataError::Open { path: file.clone(), cause };
        let metadata = fs::metadata(file).map_err(open)?;
        *states = states.clone().text(&FileState::of(&metadata).to_string());
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Ok(digest.text(&name).number(metadata.len() as usize))
    })
}

fn read_raster(file: &Path, index: usize) -> Result<Raster<'static>, DataError> {
    let place = || place(file, index);
    let bytes = fs::File::open(file)
        .and_then(|file| read_file(file, 0))
        .map_err(|cause| DataError::Read { place: place(), cause })?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let bytes = bytes.len() as u64;
        return Err(DataError::FileTooLarge { place: place(), bytes, limit: MAX_FILE_BYTES });
    }
    let has_second_page = tiff_has_second_page(&bytes);
    if has_second_page == Some(true) {
        return read_volume(file, index);
    }
    match decode_raster(&bytes) {
        // Such as gray f32.
        Err(DecodeError::Damaged { .. }) if has_second_page.is_some() => read_volume(file, index),
        decoded => decoded.map_err(|cause| DataError::Decode { place: place(), cause }),
    }
}

/// The only frame of a TIFF that may have several pages.
fn read_volume(file: &Path, index: usize) -> Result<Raster<'static>, DataError> {
    let place = || place(file, index);
    let volume = TiffVolume::open(file, &OpenConfig::default())?;
    let spec = volume.spec();
    if spec.frames != 1 {
        let (expected, got) = ("1 frame".to_owned(), format!("{} frames", spec.frames));
        return Err(DataError::Sample { place: place(), expected, got });
    }
    // More than its bytes where it is compressed.
    if let Some(bytes) = spec.bytes().filter(|bytes| *bytes > MAX_DECODER_BYTES) {
        return Err(DataError::FileTooLarge { place: place(), bytes, limit: MAX_DECODER_BYTES });
    }
    volume.read(&spec.frame(0))
}

fn place(file: &Path, index: usize) -> Place {
    Place { name: file.display().to_string(), index: Some(index) }
}

/// The common properties of a raster's files.
fn one_channel(raster: &Raster<'_>) -> RasterSpec {
    RasterSpec { channels: 1, ..*raster.spec() }
}
