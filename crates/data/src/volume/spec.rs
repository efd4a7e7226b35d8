//! The shape and type of a volume, and a region of it.

use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;

use crate::digest::Digest;
use crate::raster::RasterSpec;

/// The sides of a voxel in µm, from a picometer to a kilometer: distances and areas in such voxels
/// stay finite.
pub(super) const VOXEL_UM: RangeInclusive<f64> = 1e-6..=1e9;

/// The specification of a volume: pixel type and sides of a frame, number of frames, voxel size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VolumeSpec {
    /// Type of values, channels and sides of one frame; `depth` is `None` for pictures.
    pub raster: RasterSpec,
    /// The number of time points, at least 1.
    pub frames: usize,
    /// The voxel size along depth, height and width in µm, if known.
    pub voxel_um: [Option<f64>; 3],
}

/// A part of one frame of a volume, with all its channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// The frame, counted from 0.
    pub frame: usize,
    /// The first slice, row and column.
    pub origin: [usize; 3],
    /// Slices, rows and columns; one slice of a picture.
    pub sides: [usize; 3],
}

impl VolumeSpec {
    /// One frame of voxels of unknown size.
    #[must_use]
    pub const fn new(raster: RasterSpec) -> Self {
        Self { raster, frames: 1, voxel_um: [None; 3] }
    }

    /// Slices, rows and columns; one slice for a picture.
    #[must_use]
    pub fn sides(&self) -> [usize; 3] {
        [self.raster.slices(), self.raster.height, self.raster.width]
    }

    /// The bytes of all frames; `None` on overflow.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let frame =
            (self.raster.values()? as u64).checked_mul(self.raster.pixel_type.bytes() as u64);
        frame?.checked_mul(self.frames as u64)
    }

    /// A whole frame.
    #[must_use]
    pub fn frame(&self, frame: usize) -> Region {
        Region { frame, origin: [0; 3], sides: self.sides() }
    }

    /// Whether a region is not empty and lies in the volume.
    #[must_use]
    pub fn holds(&self, region: &Region) -> bool {
        let within = |axis: usize| {
            let end = region.origin[axis].checked_add(region.sides[axis]);
            region.sides[axis] > 0 && end.is_some_and(|end| end <= self.sides()[axis])
        };
        region.frame < self.frames && (0..3).all(within)
    }

    /// The specification of a region's raster.
    pub(crate) fn of_region(&self, region: &Region) -> RasterSpec {
        let [depth, height, width] = region.sides;
        let depth = self.raster.depth.map(|_| depth);
        RasterSpec { depth, height, width, ..self.raster }
    }

    pub(crate) fn describe(&self, digest: Digest) -> Digest {
        let digest = digest.text(&self.raster.to_string()).number(self.frames);
        self.voxel_um.iter().fold(digest, |digest, size| digest.text(&format!("{size:?}")))
    }
}

impl Display for VolumeSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let frames = if self.frames == 1 { "frame" } else { "frames" };
        write!(f, "{} {frames} of {}", self.frames, self.raster)
    }
}
