//! A PNG as a volume of one slice.

use std::fs;
use std::path::{Path, PathBuf};

use crate::decode::decode_raster;
use crate::digest::Digest;
use crate::error::{DataError, Place};
use crate::raster::Raster;
use crate::source::MAX_FILE_BYTES;
use crate::volume::source::check_region;
use crate::volume::{Region, VolumeSource, VolumeSpec, cut};

/// A PNG of 8 or 16 bits, gray or with colors as channels; every read decodes the whole file.
///
/// The fingerprint covers name and length of the file, not its values.
#[derive(Debug)]
pub struct PngVolume {
    path: PathBuf,
    spec: VolumeSpec,
    fingerprint: String,
}

impl PngVolume {
    /// Opens a file and decodes it once.
    ///
    /// # Errors
    /// [`DataError::Open`], [`DataError::FileTooLarge`] or [`DataError::Decode`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref().to_owned();
        let open = |cause| DataError::Open { path: path.clone(), cause };
        let bytes = fs::metadata(&path).map_err(open)?.len();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let digest = Digest::new("updraft png").text(&name).number(bytes as usize);
        let spec = VolumeSpec::new(*decode(&path)?.spec());
        Ok(Self { path, spec, fingerprint: spec.describe(digest).hex() })
    }
}

impl VolumeSource for PngVolume {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    fn read(&self, region: &Region) -> Result<Raster<'static>, DataError> {
        check_region(&self.spec, region);
        let whole = decode(&self.path)?;
        if *region == self.spec.frame(0) {
            return Ok(whole);
        }
        Ok(cut(&whole, region, self.spec.of_region(region)))
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}

fn decode(path: &Path) -> Result<Raster<'static>, DataError> {
    let place = || Place { name: path.display().to_string(), index: None };
    let bytes =
        fs::metadata(path).map_err(|cause| DataError::Read { place: place(), cause })?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(DataError::FileTooLarge { place: place(), bytes, limit: MAX_FILE_BYTES });
    }
    let bytes = fs::read(path).map_err(|cause| DataError::Read { place: place(), cause })?;
    decode_raster(&bytes).map_err(|cause| DataError::Decode { place: place(), cause })
}
