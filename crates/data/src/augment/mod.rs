//! Changes to a sample on its way into a batch: one transform a file.

mod augmentation;
mod canvas;
mod horizontal_flip;
mod normalize;
mod translate;

pub use augmentation::Augment;
pub use canvas::Canvas;
pub use horizontal_flip::HorizontalFlip;
pub use normalize::Normalize;
pub use translate::Translate;

pub(crate) use normalize::Affine;
