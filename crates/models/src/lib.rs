//! Networks that several tasks share.
#![doc = include_str!("../README.md")]

mod attention;
mod dual_autoencoder;
mod error;
mod global_pooling;
mod initialize;
mod layer_norm;
mod mobile;
mod outliers;
mod perceptron;
mod pruning;
mod quantized;
mod separable;
mod table;
mod transformer;
mod unet;
mod whitened;
mod whitening;

// Depthwise-separable convolutions.
pub use separable::{SeparableConfig, SeparableNet};

// Networks of inverted residuals.
pub use mobile::{
    EfficientNet, EfficientNetConfig, MobileActivation, MobileConfigError, MobileNet,
    MobileNetConfig,
};

// Quantization-aware training.
pub use quantized::WeightBits;

// A convolutional network behind a whitening convolution.
pub use initialize::with_partial_identity;
pub use whitened::{WhitenedConfig, WhitenedNet};
pub use whitening::PatchMoments;

// Weights for channels and positions of feature maps.
pub use attention::{Bam, BamConfig, Cbam, CbamConfig, Eca, EcaConfig};

// An autoencoder of images with splines.
pub use dual_autoencoder::{CoreLayer, DualAutoencoder, DualAutoencoderConfig, LatentAttention};

// A multilayer perceptron for tables.
pub use perceptron::{Perceptron, PerceptronConfig};

// Networks for tables, with a head for each target.
pub use table::{
    Head, InteractionConfig, InteractionNet, RowFeatures, SplineNet, SplineNetConfig, TableNet,
    TableNetConfig, Trunk,
};

// Vision transformers of images and volumes, and masked autoencoders.
pub use transformer::{
    DecoderConfig, DecoderKind, DenseTransformer, DenseTransformerConfig, EncoderConfig,
    MaskedAutoencoder, MaskedAutoencoderConfig, MaskedFlow, PatchEncoder, PatchMasks, Positions,
    VisionTransformer, VisionTransformerConfig, images_of_patches, normalize_patches,
    patches_of_images, random_order,
};

// U-Nets of images and volumes.
pub use unet::{
    Downsampling, SpatialLayers, UNet, UNet2d, UNet3d, UNetBlock, UNetConfig, UNetFlow,
    UNetNormalization, Upsampling,
};

// Errors.
pub use attention::AttentionConfigError;
pub use dual_autoencoder::DualAutoencoderConfigError;
pub use error::{
    OutlierError, PerceptronConfigError, SeparableConfigError, TableNetConfigError,
    UNetConfigError, WhitenedConfigError,
};
pub use transformer::TransformerConfigError;
