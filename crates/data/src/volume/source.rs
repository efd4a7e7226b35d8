//! The trait of a volume that is read by region.

use crate::error::DataError;
use crate::pixels::PixelType;
use crate::raster::Raster;
use crate::volume::{Region, VolumeSpec};

/// A volume that can be read region by region, by several threads at once.
pub trait VolumeSource: Send + Sync {
    /// The name of the volume in messages: its file, or how it was generated.
    fn name(&self) -> String;

    /// Pixel type, channels, sides, frames and voxel size.
    fn spec(&self) -> &VolumeSpec;

    /// Reads all channels of a region.
    ///
    /// # Errors
    /// The error of the file, with its path.
    ///
    /// # Panics
    /// If the region does not lie in the volume; see [`VolumeSpec::holds`].
    fn read(&self, region: &Region) -> Result<Raster<'static>, DataError>;

    /// A SHA-256, as 64 hexadecimal digits: equal for equal volumes.
    fn fingerprint(&self) -> String;

    /// Whether the values are already in memory.
    fn is_in_memory(&self) -> bool {
        false
    }
}

/// Panics as documented in [`VolumeSource::read`].
pub(super) fn check_region(spec: &VolumeSpec, region: &Region) {
    assert!(spec.holds(region), "{region:?} does not lie in {spec}");
}

/// Regions of a few slices or rows that cover a volume, each of about `bytes` bytes, for a pass
/// over the whole volume.
pub(crate) fn passes(spec: &VolumeSpec, bytes: usize) -> impl Iterator<Item = Region> + use<> {
    let [depth, height, width] = spec.sides();
    let row = (width * spec.raster.channels * spec.raster.pixel_type.bytes()).max(1);
    let (slices, rows) = ((bytes / (row * height)).max(1), (bytes / row).clamp(1, height));
    (0..spec.frames).flat_map(move |frame| {
        (0..depth).step_by(slices).flat_map(move |slice| {
            (0..height).step_by(rows).map(move |row| Region {
                frame,
                origin: [slice, row, 0],
                sides: [slices.min(depth - slice), rows.min(height - row), width],
            })
        })
    })
}

/// Whether values can be labels: one channel of u8 or u16.
pub(crate) fn are_labels(spec: &VolumeSpec) -> bool {
    spec.raster.channels == 1 && spec.raster.pixel_type != PixelType::F32
}
