//! A volume with what is to be predicted of it.

use std::sync::Arc;

use crate::volume::VolumeSource;

/// A volume with its target.
#[derive(Clone)]
pub struct VolumePair {
    /// What a model sees.
    pub input: Arc<dyn VolumeSource>,
    /// The target, with the same sides and frames.
    pub target: VolumeTarget,
}

/// The target of a volume.
#[derive(Clone)]
#[non_exhaustive]
pub enum VolumeTarget {
    /// None.
    None,
    /// Another volume.
    Image(Arc<dyn VolumeSource>),
    /// A mask: the label of every voxel, one channel of u8 or u16.
    Labels(Arc<dyn VolumeSource>),
}

impl VolumeTarget {
    /// Its volume, if it has one.
    pub(super) fn volume(&self) -> Option<&Arc<dyn VolumeSource>> {
        match self {
            Self::None => None,
            Self::Image(volume) | Self::Labels(volume) => Some(volume),
        }
    }
}
