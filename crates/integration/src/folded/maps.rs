//! The maps of both pathways: each by itself, or their channels in one tensor.

use burn::tensor::Tensor;
use updraft_conv::join_channels;

use crate::classifier::pool;

/// The maps of color and brightness, which have one shape behind the stems.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "one exists at a time")]
pub(crate) enum Maps {
    /// Color, then brightness.
    Apart([Tensor<4>; 2]),
    /// The channels of color, then as many of brightness.
    Joined(Tensor<4>),
}

impl Maps {
    /// Color, then brightness.
    pub(crate) fn apart(&self) -> [Tensor<4>; 2] {
        match self {
            Self::Apart(both) => both.clone(),
            Self::Joined(joined) => {
                let channels = joined.dims()[1] / 2;
                [0, channels].map(|first| joined.clone().narrow(1, first, channels))
            }
        }
    }

    /// The channels of color, then those of brightness.
    pub(crate) fn joined(&self) -> Tensor<4> {
        match self {
            Self::Apart([color, brightness]) => join_channels(color.clone(), brightness.clone()),
            Self::Joined(joined) => joined.clone(),
        }
    }

    /// The mean of each map, joined.
    pub(crate) fn pooled(self) -> Tensor<2> {
        match self {
            Self::Apart(both) => Tensor::cat(both.map(pool).to_vec(), 1),
            Self::Joined(joined) => pool(joined),
        }
    }
}
