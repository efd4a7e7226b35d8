//! Where samples come from.

mod blobs;
mod cached_tar;
mod catalog;
mod cifar;
mod cifar_files;
mod decoding;
mod folder;
mod formulae;
mod generated;
mod idx;
mod image_source;
mod in_memory;
mod inflate;
mod interactions;
mod manifest;
mod positioned;
mod relabeled;
mod resized;
mod shapes;
mod subset;
mod tar_images;
mod tensors;

pub use blobs::blob_volumes;
pub use cifar::{CifarLabels, CifarPart, CifarRecords};
pub use cifar_files::{CifarFiles, read_cifar};
pub use folder::ImageFolder;
pub use formulae::{Formula, formula_samples};
pub use generated::{Cue, GeneratedConfig, GeneratedImages};
pub use idx::{IdxArray, IdxValues};
pub use image_source::ImageSource;
pub use in_memory::InMemoryImages;
pub use interactions::interaction_csv;
pub use relabeled::Relabeled;
pub use resized::Resized;
pub use subset::Subset;
pub use tar_images::TarImages;
pub use tensors::{InMemoryTensors, Targets};

pub(crate) use catalog::EXTENSIONS;
pub(crate) use decoding::{Decoding, check_size, fingerprint as decoded_fingerprint};
pub(crate) use image_source::place;
pub(crate) use positioned::read_exact_at;
