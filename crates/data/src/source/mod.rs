//! Where samples come from.

mod catalog;
mod folder;
mod generated;
mod image_source;
mod in_memory;
mod inflate;
mod positioned;
mod relabeled;
mod shapes;
mod subset;
mod tar_images;

pub use folder::ImageFolder;
pub use generated::{Cue, GeneratedConfig, GeneratedImages};
pub use image_source::ImageSource;
pub use in_memory::InMemoryImages;
pub use relabeled::Relabeled;
pub use subset::Subset;
pub use tar_images::TarImages;

pub(crate) use catalog::EXTENSIONS;
pub(crate) use image_source::place;
