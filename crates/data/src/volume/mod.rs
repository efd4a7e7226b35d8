//! Volumes: images and stacks of several channels and frames, read whole or region by region.

mod imagej;
mod joined;
mod manifest;
mod memory;
mod ome;
mod open;
mod pair;
mod part;
mod patches;
mod png;
mod positions;
mod scale;
mod source;
mod spec;
mod statistics;
mod tiff;
mod windows;

pub use joined::JoinedChannels;
pub use manifest::{VolumeManifest, VolumeRow};
pub use memory::Volume;
pub use open::{OpenConfig, PageAxis, open_volume};
pub use pair::{VolumePair, VolumeTarget};
pub use part::VolumePart;
pub use patches::{PatchConfig, VolumePatches};
pub use png::PngVolume;
pub use positions::Foreground;
pub use scale::{ScaledVolume, VolumeScale};
pub use source::VolumeSource;
pub use spec::{Region, VolumeSpec};
pub use statistics::{ChannelStatistics, volume_statistics};
pub use tiff::{
    TiffCompression, TiffVolume, TiffWriteConfig, VolumeWriter, tiff_software, write_volume,
};
pub use windows::VolumeWindows;

pub(crate) use memory::cut;
pub(crate) use source::are_labels;
pub(crate) use tiff::StripPlace;
