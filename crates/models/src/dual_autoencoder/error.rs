//! Errors of a dual autoencoder's configuration, or of an image of the wrong size.

use updraft_kan::KanConfigError;

use super::config::SIDE_MULTIPLE;

/// Why a [`DualAutoencoderConfig`](crate::DualAutoencoderConfig) is invalid, or an image does not
/// fit the network.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DualAutoencoderConfigError {
    /// A number of channels is out of range.
    #[error("`{name}` is {value}; expected 1 to {max}")]
    Channels {
        /// The name of the value.
        name: &'static str,
        /// The number given.
        value: usize,
        /// The largest number accepted.
        max: usize,
    },
    /// The KAN layers cannot be built.
    #[error("its layers of splines cannot be built: {cause}")]
    Splines {
        /// The error of the layer.
        cause: KanConfigError,
    },
    /// The range of the output is empty or not finite.
    #[error("`output_range` is [{low}, {high}]; expected two finite numbers in ascending order")]
    OutputRange {
        /// The smallest output.
        low: f32,
        /// The largest output.
        high: f32,
    },
    /// The probability is out of range or not a number.
    #[error("`dropout` is {dropout}; expected at least 0 and less than 1")]
    Dropout {
        /// The probability given.
        dropout: f64,
    },
    /// The sides of an image cannot be halved three times.
    #[error(
        "an image of {height}×{width} cannot be halved three times; expected sides that are \
         multiples of {SIDE_MULTIPLE}"
    )]
    Image {
        /// The height of the image.
        height: usize,
        /// Its width.
        width: usize,
    },
}
