//! Opening a file of any supported format as a volume.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decode::decode;
use crate::error::{DataError, DecodeError, Place};
use crate::raster::Raster;
use crate::volume::{PngVolume, TiffVolume, Volume, VolumeSource};

/// The meaning of the pages of a TIFF without an OME header, or an `ImageJ` description with two axes or
/// more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageAxis {
    /// Slices of a volume.
    #[default]
    Depth,
    /// Points in time.
    Frames,
    /// Channels.
    Channels,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenConfig {
    /// The meaning of the pages where the header does not say it; a single page is a picture.
    pub pages: PageAxis,
    /// The image of an OME header to read, from 0.
    pub series: usize,
}

/// Opens a TIFF, `BigTIFF`, OME-TIFF, PNG or JPEG; the format is detected from its first bytes, not
/// from its name.
///
/// A JPEG is decoded at once, to three channels of u8.
///
/// # Errors
/// As [`TiffVolume::open`] and [`PngVolume::open`]; the error of decoding a JPEG;
/// [`DataError::Decode`] for a file of another format.
///
/// # Example
/// ```
/// use updraft_data::{
///     OpenConfig, Raster, TiffWriteConfig, Volume, VolumeSource, open_volume, write_volume,
/// };
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("cells.ome.tif");
/// // Three slices of two channels, in voxels of 0.3 by 0.1 by 0.1 µm.
/// let raster = Raster::from_planes(2, &[3, 4, 5], vec![7_u16; 2 * 3 * 4 * 5])?;
/// let cells = Volume::try_new("cells", vec![raster], [Some(0.3), Some(0.1), Some(0.1)])?;
/// write_volume(&path, &cells, &TiffWriteConfig::default())?;
///
/// let file = open_volume(&path, &OpenConfig::default())?;
/// assert_eq!(file.spec(), cells.spec());
/// assert_eq!(Volume::load(&*file)?.frames(), cells.frames());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_volume(
    path: impl AsRef<Path>,
    config: &OpenConfig,
) -> Result<Arc<dyn VolumeSource>, DataError> {
    let path = path.as_ref();
    let open = |cause| DataError::Open { path: path.to_owned(), cause };
    let mut start = Vec::new();
    File::open(path).map_err(open)?.take(8).read_to_end(&mut start).map_err(open)?;
    Ok(match &start[..] {
        [0x89, b'P', b'N', b'G', ..] => Arc::new(PngVolume::open(path)?),
        [0xff, 0xd8, 0xff, _, ..] => Arc::new(jpeg(path)?),
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => {
            Arc::new(TiffVolume::open(path, config)?)
        }
        _ => {
            let place = Place { name: path.display().to_string(), index: None };
            let cause = match start.is_empty() {
                true => DecodeError::Empty,
                false => DecodeError::UnknownFormat { start },
            };
            return Err(DataError::Decode { place, cause });
        }
    })
}

/// The picture of a JPEG.
fn jpeg(path: &Path) -> Result<Volume, DataError> {
    let bytes = std::fs::read(path);
    let bytes = bytes.map_err(|cause| DataError::Open { path: path.to_owned(), cause })?;
    let name = path.display().to_string();
    let image = decode(&bytes, &name)?;
    let (height, width) = image.size();
    let raster = Raster::try_new(3, &[height, width], image.into_pixels())?;
    Volume::try_new(name, vec![raster], [None; 3])
}
