//! A block of a volume, as a volume of its own.

use std::ops::Range;
use std::sync::Arc;

use crate::digest::Digest;
use crate::error::{DataError, VolumeError};
use crate::raster::Raster;
use crate::volume::source::check_region;
use crate::volume::{Region, VolumeSource, VolumeSpec};

/// A block of another volume: a range of frames, slices, rows and columns.
pub struct VolumePart {
    source: Arc<dyn VolumeSource>,
    first: [usize; 4],
    spec: VolumeSpec,
}

impl VolumePart {
    /// Selects frames, slices, rows and columns; `None` selects a whole axis.
    ///
    /// # Errors
    /// [`VolumeError::Field`] for a range that is empty or out of bounds.
    pub fn try_new(
        source: Arc<dyn VolumeSource>,
        ranges: [Option<Range<usize>>; 4],
    ) -> Result<Self, DataError> {
        let whole = *source.spec();
        let [depth, height, width] = whole.sides();
        let names = ["the range of t", "the range of z", "the range of y", "the range of x"];
        let (mut first, mut sides) = ([0; 4], [whole.frames, depth, height, width]);
        for (axis, range) in ranges.into_iter().enumerate() {
            let Some(range) = range else { continue };
            if range.is_empty() || range.end > sides[axis] {
                return Err(VolumeError::Field {
                    path: source.name().into(),
                    field: names[axis].to_owned(),
                    got: format!("{range:?}"),
                    expected: format!("a range of at least 1 within 0..{}", sides[axis]),
                }
                .into());
            }
            (first[axis], sides[axis]) = (range.start, range.len());
        }
        let [frames, depth, height, width] = sides;
        let mut raster = whole.raster;
        (raster.depth, raster.height, raster.width) = (raster.depth.map(|_| depth), height, width);
        Ok(Self { source, first, spec: VolumeSpec { raster, frames, ..whole } })
    }
}

impl VolumeSource for VolumePart {
    fn name(&self) -> String {
        self.source.name()
    }

    fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    fn read(&self, region: &Region) -> Result<Raster<'static>, DataError> {
        check_region(&self.spec, region);
        let [frame, first @ ..] = self.first;
        let origin = [0, 1, 2].map(|axis| region.origin[axis] + first[axis]);
        self.source.read(&Region { frame: region.frame + frame, origin, sides: region.sides })
    }

    fn fingerprint(&self) -> String {
        let digest = Digest::new("updraft volume part").text(&self.source.fingerprint());
        let digest = self.first.iter().fold(digest, |digest, &first| digest.number(first));
        self.spec.describe(digest).hex()
    }

    fn is_in_memory(&self) -> bool {
        self.source.is_in_memory()
    }
}
