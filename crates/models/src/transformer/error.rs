//! Errors of the configuration of a transformer.

/// Why an [`EncoderConfig`](crate::EncoderConfig), a
/// [`MaskedAutoencoderConfig`](crate::MaskedAutoencoderConfig) or a
/// [`VisionTransformerConfig`](crate::VisionTransformerConfig) is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TransformerConfigError {
    /// A number is out of range.
    #[error("`{name}` is {value}; expected {least} to {most}")]
    Number {
        /// The setting.
        name: &'static str,
        /// The number given.
        value: usize,
        /// The smallest number accepted.
        least: usize,
        /// The largest number accepted.
        most: usize,
    },
    /// The heads do not divide the features.
    #[error("`{name}` is {heads}; expected a divisor of the embedding of {embedding} features")]
    Heads {
        /// The setting.
        name: &'static str,
        /// The heads given.
        heads: usize,
        /// The features.
        embedding: usize,
    },
    /// Images and patches have other numbers of sides than two or three, or different ones.
    #[error("`sides` has {sides} entries and `patch` {patch}; expected two or three, and as many")]
    Axes {
        /// The number of sides of an image.
        sides: usize,
        /// The number of sides of a patch.
        patch: usize,
    },
    /// Patches do not tile an axis of the image.
    #[error(
        "the {axis} of an image is {side}, which patches of {patch} do not tile; the nearest are \
         {}", nearest(*.side, *.patch)
    )]
    Tiling {
        /// `depth`, `height` or `width`.
        axis: &'static str,
        /// The image's side.
        side: usize,
        /// The patch's side.
        patch: usize,
    },
    /// No patch stays visible, or none is masked.
    #[error(
        "`mask_ratio` is {ratio}, which leaves {visible} of {patches} patches visible; expected a \
         ratio above 0 and below 1 that leaves at least one visible and one masked"
    )]
    MaskRatio {
        /// The ratio given.
        ratio: f64,
        /// Visible patches.
        visible: usize,
        /// All patches.
        patches: usize,
    },
}

/// The multiples of a patch's side around a side.
fn nearest(side: usize, patch: usize) -> String {
    let below = side / patch * patch;
    let above = below + patch;
    if below == 0 { above.to_string() } else { format!("{below} and {above}") }
}
