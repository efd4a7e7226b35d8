//! Changes to a sample on its way into a batch: one transform a file.

mod augmentation;
mod canvas;
mod color_jitter;
mod horizontal_flip;
mod mix_up;
mod normalize;
mod random_resized_crop;
mod rotate;
mod sample;
mod translate;
mod zoom;

pub use augmentation::Augment;
pub use canvas::Canvas;
pub use color_jitter::ColorJitter;
pub use horizontal_flip::HorizontalFlip;
pub use mix_up::MixUp;
pub use normalize::Normalize;
pub use random_resized_crop::RandomResizedCrop;
pub use rotate::Rotate;
pub use translate::Translate;
pub use zoom::Zoom;
