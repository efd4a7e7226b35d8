//! Transforms of a sample before it enters a batch: one per file.

mod alternating_flip;
mod augment_trait;
mod canvas;
mod color_jitter;
mod elastic;
mod flip;
mod horizontal_flip;
mod intensity;
mod layer;
mod mix_up;
mod motion;
mod noise;
mod normalize;
mod normalize_channels;
mod picture_crop;
mod quarter_turn;
mod random_resized_crop;
mod rotate;
mod translate;
mod translate_depth;
mod zoom;

pub use alternating_flip::AlternatingFlip;
pub use augment_trait::Augment;
pub use canvas::{Canvas, PixelsMut};
pub use color_jitter::ColorJitter;
pub use elastic::Elastic;
pub use flip::Flip;
pub use horizontal_flip::HorizontalFlip;
pub use intensity::Intensity;
pub use mix_up::MixUp;
pub use motion::{Axis, Crop};
pub use noise::Noise;
pub use normalize::Normalize;
pub use normalize_channels::NormalizeChannels;
pub use picture_crop::PictureCrop;
pub use quarter_turn::QuarterTurn;
pub use random_resized_crop::RandomResizedCrop;
pub use rotate::Rotate;
pub use translate::Translate;
pub use translate_depth::TranslateDepth;
pub use zoom::Zoom;

pub(crate) use canvas::check_sides;
pub(crate) use normalize_channels::append_raster;
