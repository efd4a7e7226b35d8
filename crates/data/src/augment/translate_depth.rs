//! Moving a volume along its depth.

use serde::{Deserialize, Serialize};

use crate::augment::augment_trait::needs_depth;
use crate::augment::{Augment, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Moves a volume by up to `max_slices` along its depth in either direction, and mirrors it at its
/// ends to fill the uncovered area (the last slice itself is not repeated).
///
/// Each of the `2 · max_slices + 1` moves is equally likely. Within its slices a volume is moved
/// by [`Translate`](crate::Translate).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranslateDepth {
    /// The largest move; below the number of slices.
    pub max_slices: usize,
}

impl Augment for TranslateDepth {
    fn validate(&self, sample: &RasterSpec) -> Result<(), DataError> {
        needs_depth("translate_depth", sample)?;
        if self.max_slices < sample.slices() {
            return Ok(());
        }
        let expected = format!("less than the depth, {}", sample.slices());
        let (name, value) = ("translate_depth.max_slices", self.max_slices.to_string());
        Err(DataError::Setting { name, value, expected })
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("translate depth").number(self.max_slices)
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        let slices = random.below(2 * self.max_slices as u64 + 1) as isize;
        canvas.translate(slices - self.max_slices as isize, 0, 0);
    }
}
