//! Errors of decoding an image.

use std::error::Error;

use crate::error::format::hex;

/// Errors of decoding an image; the text contains the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// There are none.
    #[error("the file is empty")]
    Empty,
    /// The first bytes are not a known signature.
    #[error("expected a JPEG, PNG or TIFF, got a file that starts with {}", hex(.start))]
    UnknownFormat {
        /// The first bytes, at most eight.
        start: Vec<u8>,
    },
    /// The end is missing.
    #[error("the JPEG is truncated: it has no end-of-image marker in {bytes} bytes")]
    Truncated {
        /// How many bytes there are.
        bytes: usize,
    },
    /// The header claims a larger image than is allowed.
    #[error("the header claims {width}x{height} pixels; at most {limit} pixels are decoded")]
    TooLarge {
        /// Pixels in a row, as claimed.
        width: u32,
        /// Rows, as claimed.
        height: u32,
        /// The most pixels accepted.
        limit: u64,
    },
    /// The decoder gave up.
    #[error("the image is damaged or of an unsupported kind: {cause}")]
    Damaged {
        /// The decoder's message.
        cause: Box<dyn Error + Send + Sync>,
    },
}
