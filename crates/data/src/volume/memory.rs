//! A volume in memory.

use crate::digest::Digest;
use crate::error::{DataError, VolumeError};
use crate::pixels::Pixels;
use crate::raster::{Raster, RasterSpec};
use crate::volume::source::check_region;
use crate::volume::spec::VOXEL_UM;
use crate::volume::{Region, VolumeSource, VolumeSpec};

/// A volume in memory, frame by frame.
///
/// The fingerprint covers every value, not the name.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    name: String,
    spec: VolumeSpec,
    frames: Vec<Raster<'static>>,
    fingerprint: String,
}

impl Volume {
    /// Creates a volume from frames of one kind; `voxel_um` is the size of a voxel along depth,
    /// height and width.
    ///
    /// # Errors
    /// [`DataError::Empty`] for no frames, [`VolumeError::Differs`] for frames that differ,
    /// [`DataError::Setting`] for a side of a voxel that is not from 1e-6 to 1e9 µm.
    pub fn try_new(
        name: impl Into<String>,
        frames: Vec<Raster<'static>>,
        voxel_um: [Option<f64>; 3],
    ) -> Result<Self, DataError> {
        let name = name.into();
        let Some(first) = frames.first() else { return Err(DataError::Empty) };
        let raster = *first.spec();
        if let Some(at) = frames.iter().position(|frame| *frame.spec() != raster) {
            return Err(VolumeError::Differs {
                name: format!("{name} frame {at}"),
                got: frames[at].spec().to_string(),
                expected: raster.to_string(),
                other: format!("{name} frame 0"),
            }
            .into());
        }
        if let Some(size) = voxel_um.iter().flatten().find(|size| !VOXEL_UM.contains(*size)) {
            let (value, expected) =
                (format!("{size:e}"), "a length from 1e-6 to 1e9 µm".to_owned());
            return Err(DataError::Setting { name: "voxel_um", value, expected });
        }
        let digest =
            frames.iter().fold(Digest::new("updraft volume"), |d, raster| raster.describe(d));
        let spec = VolumeSpec { raster, frames: frames.len(), voxel_um };
        Ok(Self { name, spec, frames, fingerprint: spec.describe(digest).hex() })
    }

    /// Reads a whole volume into memory.
    ///
    /// # Errors
    /// As [`VolumeSource::read`].
    pub fn load(source: &dyn VolumeSource) -> Result<Self, DataError> {
        let spec = *source.spec();
        let frames = (0..spec.frames).map(|frame| source.read(&spec.frame(frame)));
        let frames = frames.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { name: source.name(), spec, frames, fingerprint: source.fingerprint() })
    }

    /// The frames.
    #[must_use]
    pub fn frames(&self) -> &[Raster<'static>] {
        &self.frames
    }
}

impl VolumeSource for Volume {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    fn read(&self, region: &Region) -> Result<Raster<'static>, DataError> {
        check_region(&self.spec, region);
        Ok(cut(&self.frames[region.frame], region, self.spec.of_region(region)))
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn is_in_memory(&self) -> bool {
        true
    }
}

/// A region of a raster, copied.
pub(crate) fn cut(raster: &Raster<'_>, region: &Region, spec: RasterSpec) -> Raster<'static> {
    match raster.pixels() {
        Pixels::U8(values) => Raster::of(spec, cut_values(values, raster.spec(), region)),
        Pixels::U16(values) => Raster::of(spec, cut_values(values, raster.spec(), region)),
        Pixels::F32(values) => Raster::of(spec, cut_values(values, raster.spec(), region)),
    }
}

fn cut_values<T: Copy>(values: &[T], spec: &RasterSpec, region: &Region) -> Vec<T> {
    let ([slice, row, column], [slices, rows, columns]) = (region.origin, region.sides);
    let mut part = Vec::with_capacity(slices * rows * columns * spec.channels);
    for slice in slice..slice + slices {
        for row in row..row + rows {
            let first = ((slice * spec.height + row) * spec.width + column) * spec.channels;
            part.extend_from_slice(&values[first..][..columns * spec.channels]);
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_has_the_values_of_its_place() {
        let values: Vec<u16> = (0..2 * 3 * 4 * 2).collect();
        let raster = Raster::try_new(2, &[2, 3, 4], values).unwrap();
        let volume = Volume::try_new("v", vec![raster], [None; 3]).unwrap();
        let region = Region { frame: 0, origin: [1, 1, 2], sides: [1, 2, 2] };
        let part = volume.read(&region).unwrap();
        let expected = vec![36_u16, 37, 38, 39, 44, 45, 46, 47];
        assert_eq!(part, Raster::try_new(2, &[1, 2, 2], expected).unwrap());
        assert!(!volume.spec().holds(&Region { origin: [1, 2, 2], ..region }));
        assert!(!volume.spec().holds(&Region { frame: 1, ..region }));
    }
}
