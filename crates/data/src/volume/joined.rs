//! Joins volumes of the same sides as channels.

use std::sync::Arc;

use crate::digest::Digest;
use crate::error::{DataError, VolumeError};
use crate::raster::{Raster, RasterSpec, joined};
use crate::volume::{Region, VolumeSource, VolumeSpec};

/// Concatenates the channels of volumes, such as those of a microscope that writes one file per
/// channel channel.
pub struct JoinedChannels {
    parts: Vec<Arc<dyn VolumeSource>>,
    spec: VolumeSpec,
}

impl JoinedChannels {
    /// Joins volumes of equal type, sides and frames; the voxel size is the first one's.
    ///
    /// # Errors
    /// [`DataError::Empty`] for none, [`VolumeError::Differs`] for one that differs from the first.
    pub fn try_new(parts: Vec<Arc<dyn VolumeSource>>) -> Result<Self, DataError> {
        let Some(first) = parts.first() else { return Err(DataError::Empty) };
        let mut spec = *first.spec();
        let one = |spec: &VolumeSpec| VolumeSpec {
            raster: RasterSpec { channels: 1, ..spec.raster },
            voxel_um: [None; 3],
            ..*spec
        };
        for part in &parts[1..] {
            let (expected, got) = (one(&spec), one(part.spec()));
            if expected != got {
                return Err(VolumeError::Differs {
                    name: part.name(),
                    got: got.to_string(),
                    expected: expected.to_string(),
                    other: first.name(),
                }
                .into());
            }
        }
        spec.raster.channels = parts.iter().map(|part| part.spec().raster.channels).sum();
        Ok(Self { parts, spec })
    }
}

impl VolumeSource for JoinedChannels {
    fn name(&self) -> String {
        self.parts[0].name()
    }

    fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    fn read(&self, region: &Region) -> Result<Raster<'static>, DataError> {
        let parts = self.parts.iter().map(|part| part.read(region));
        Ok(joined(parts.collect::<Result<_, _>>()?))
    }

    fn fingerprint(&self) -> String {
        let digest = Digest::new("updraft joined channels").number(self.parts.len());
        self.parts.iter().fold(digest, |digest, part| digest.text(&part.fingerprint())).hex()
    }

    fn is_in_memory(&self) -> bool {
        self.parts.iter().all(|part| part.is_in_memory())
    }
}
