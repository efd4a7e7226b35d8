//! Errors of a convolution.

use std::fmt;

use crate::kernels::geometry::LayerError;

/// Errors of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConvError {
    /// A convolution has 1, 2 or 3 spatial axes.
    Axes {
        /// How many were given.
        axes: usize,
    },
    /// A kernel, a stride or a dilation is 0, or sizes exceed the address space.
    Axis {
        /// The spatial axis, from 0.
        axis: usize,
        /// Which number is wrong.
        name: &'static str,
        /// What it is.
        value: usize,
    },
    /// The groups do not divide the channels.
    Groups {
        /// Groups.
        groups: usize,
        /// Channels of the input.
        in_channels: usize,
        /// Channels of the output.
        out_channels: usize,
    },
    /// The image has another number of spatial axes than the kernel.
    Rank {
        /// The kernel's.
        expected: usize,
        /// The image's.
        actual: usize,
    },
    /// The kernel is larger than the image with its padding.
    Kernel {
        /// The spatial axis, from 0.
        axis: usize,
        /// Pixels from the first tap to the last.
        extent: usize,
        /// Pixels of the image with its padding.
        padded: usize,
    },
    /// The input is not a number of whole images.
    Images {
        /// Numbers in the input.
        actual: usize,
        /// Numbers of an image.
        image: usize,
    },
    /// The weights, or the layer of one pixel, are invalid.
    Layer(LayerError),
}

impl fmt::Display for ConvError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Axes { axes } => {
                write!(formatter, "a convolution has 1 to 3 spatial axes, got {axes}")
            }
            Self::Axis { axis, name, value } => write!(
                formatter,
                "the {name} of spatial axis {axis} is {value}; it has to be from 1 to {}",
                super::geometry::MAX_SIZE
            ),
            Self::Groups { groups, in_channels, out_channels } => write!(
                formatter,
                "{groups} groups do not divide {in_channels} input and {out_channels} output \
                 channels"
            ),
            Self::Rank { expected, actual } => write!(
                formatter,
                "expected an image with {expected} spatial axes, got one with {actual}"
            ),
            Self::Kernel { axis, extent, padded } => write!(
                formatter,
                "the kernel spans {extent} pixels of spatial axis {axis}, the image with its \
                 padding has {padded}"
            ),
            Self::Images { actual, image } => {
                write!(formatter, "{actual} numbers in `x` are no whole images of {image} numbers")
            }
            Self::Layer(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for ConvError {}

impl From<LayerError> for ConvError {
    fn from(error: LayerError) -> Self {
        Self::Layer(error)
    }
}
