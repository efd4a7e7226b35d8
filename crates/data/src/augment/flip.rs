//! Mirroring along any axis.

use serde::{Deserialize, Serialize};

use crate::augment::augment_trait::needs_depth;
use crate::augment::{Augment, Axis, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Mirrors half of the samples along an axis: list one for each axis without a preferred direction,
/// such as both axes of a picture taken from above.
///
/// Along the width it is the same as [`HorizontalFlip`](crate::HorizontalFlip).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flip {
    /// The axis; samples must have it.
    pub axis: Axis,
}

impl Augment for Flip {
    fn validate(&self, sample: &RasterSpec) -> Result<(), DataError> {
        if self.axis == Axis::Depth { needs_depth("flip", sample) } else { Ok(()) }
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("flip").number(match self.axis {
            Axis::Depth => 0,
            Axis::Height => 1,
            Axis::Width => 2,
        })
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        if random.coin() {
            canvas.flip(self.axis);
        }
    }
}
