//! Vision transformers of images and volumes, and masked autoencoders.

mod block;
mod classifier;
mod config;
mod decoder;
mod dense;
mod encoder;
mod error;
mod linear;
mod mask;
mod masked_autoencoder;
mod patches;
mod positions;

pub use classifier::{VisionTransformer, VisionTransformerConfig};
pub use config::{DecoderConfig, DecoderKind, EncoderConfig, MaskedAutoencoderConfig, Positions};
pub use dense::{DenseTransformer, DenseTransformerConfig};
pub use encoder::PatchEncoder;
pub use error::TransformerConfigError;
pub use mask::{PatchMasks, random_order};
pub use masked_autoencoder::{MaskedAutoencoder, MaskedFlow};
pub use patches::{images_of_patches, normalize_patches, patches_of_images};
