//! Where samples come from.

mod cached_tar;
mod catalog;
mod cifar;
mod folder;
mod generated;
mod idx;
mod image_source;
mod in_memory;
mod inflate;
mod manifest;
mod positioned;
mod relabeled;
mod shapes;
mod subset;
mod tar_images;
mod tensors;

pub use cifar::{CifarLabels, CifarPart, CifarRecords, read_cifar};
pub use folder::ImageFolder;
pub use generated::{Cue, GeneratedConfig, GeneratedImages};
pub use idx::{IdxArray, IdxValues};
pub use image_source::ImageSource;
pub use in_memory::InMemoryImages;
pub use relabeled::Relabeled;
pub use subset::Subset;
pub use tar_images::TarImages;
pub use tensors::{InMemoryTensors, Targets};

pub(crate) use catalog::EXTENSIONS;
pub(crate) use image_source::place;
