//! The keys of `model` that errors of a network's configuration are about.

use updraft_integration::NetworkConfigError;
use updraft_models::{SeparableConfigError, TransformerConfigError, WhitenedConfigError};

/// The key that gave the value of an error, of a network of pathways.
pub(super) const fn key_of_pathways(error: &NetworkConfigError) -> &'static str {
    match error {
        NetworkConfigError::Channels { .. } => "model.channels",
        NetworkConfigError::StemStride { .. } => "model.stem_stride",
        NetworkConfigError::Dropout { .. } => "model.dropout",
        NetworkConfigError::RepeatedPoint { .. } => "model.integration_points",
        NetworkConfigError::Std { .. } => "data.std",
        NetworkConfigError::Mean { .. } => "data.mean",
        _ => "model",
    }
}

/// The same for a separable network.
pub(super) const fn key_of_separable(error: &SeparableConfigError) -> &'static str {
    match error {
        SeparableConfigError::Channels { .. } => "model.channels",
        SeparableConfigError::StemStride { .. } => "model.stem_stride",
        SeparableConfigError::Dropout { .. } => "model.dropout",
        SeparableConfigError::PruneRatio { .. } => "model.prune_ratio",
        _ => "model",
    }
}

/// The same for a vision transformer.
pub(super) fn key_of_transformer(error: &TransformerConfigError) -> &'static str {
    match error {
        TransformerConfigError::Tiling { axis: "height", .. } => "data.height",
        TransformerConfigError::Tiling { .. } => "data.width",
        TransformerConfigError::Heads { .. } => "model.heads",
        TransformerConfigError::Number { name: "embedding", .. } => "model.embedding",
        TransformerConfigError::Number { name: "layers", .. } => "model.layers",
        TransformerConfigError::Number { name: "heads", .. } => "model.heads",
        TransformerConfigError::Number { name: "patch" | "patches", .. } => "model.patch",
        _ => "model",
    }
}

/// The same for a network behind a whitening convolution.
pub(super) const fn key_of_whitened(error: &WhitenedConfigError) -> &'static str {
    match error {
        WhitenedConfigError::Width { .. } => "model.widths",
        WhitenedConfigError::NormMomentum { .. } => "model.norm_momentum",
        WhitenedConfigError::HeadScale { .. } => "model.head_scale",
        WhitenedConfigError::WhiteningEpsilon { .. } => "model.whitening_epsilon",
        _ => "model",
    }
}
