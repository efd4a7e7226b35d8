//! The reduction of a model's outputs: all channels, classes or a threshold.

use serde::{Deserialize, Serialize};

use crate::pixels::{PixelType, Pixels};

/// What is kept of a model's channels, plane by plane, so that the channels of a whole volume are
/// never in memory.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Every channel, as f32.
    #[default]
    Keep,
    /// The channel with the greatest value, the first of equal ones: u8, or u16 for more than 256
    /// channels.
    ArgMax,
    /// For every channel, 1 where it is above this and 0 elsewhere, as u8; the logit 0 is a sigmoid
    /// of one half.
    Above(f32),
}

impl Reduction {
    /// The type and the number of output channels for this many input channels.
    pub(super) const fn kept(self, channels: usize) -> (PixelType, usize) {
        match self {
            Self::Keep => (PixelType::F32, channels),
            Self::ArgMax if channels > 256 => (PixelType::U16, 1),
            Self::ArgMax => (PixelType::U8, 1),
            Self::Above(_) => (PixelType::U8, channels),
        }
    }

    /// Reduces a plane `[channels, …]`.
    pub(super) fn apply(self, values: &[f32], channels: usize) -> Pixels<'_> {
        match self {
            Self::Keep => values.into(),
            Self::Above(least) => {
                values.iter().map(|&value| u8::from(value > least)).collect::<Vec<_>>().into()
            }
            Self::ArgMax => {
                let count = values.len() / channels;
                let best = |at: usize| {
                    (1..channels).fold(0, |best, channel| {
                        let is_better = values[channel * count + at] > values[best * count + at];
                        if is_better { channel } else { best }
                    })
                };
                if channels > 256 {
                    (0..count).map(|at| best(at) as u16).collect::<Vec<_>>().into()
                } else {
                    (0..count).map(|at| best(at) as u8).collect::<Vec<_>>().into()
                }
            }
        }
    }
}
