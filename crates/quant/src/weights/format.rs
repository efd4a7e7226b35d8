//! The format of a layer's weights: bits, symmetry and groups.

use serde::{Deserialize, Serialize};

/// The format of a layer's weights: 8, 4, 3, 2 or 1 bits for each, symmetric or with a zero point,
/// with one scale for each output channel or also a multiplier for each group of weights.
///
/// Weights of fewer than eight bits save memory in the file. The kernels multiply signed bytes, to
/// which the weights are unpacked when a model is made: `byte = multiplier·(code − zero point)`,
/// which is exact, so that a model computes the same from its file. Its speed is that of eight bits.
///
/// # Example
/// ```
/// use updraft_quant::WeightFormat;
///
/// let format = WeightFormat::try_new(4)?.try_asymmetric()?.try_groups_of(32)?;
/// assert_eq!(format.to_string(), "4 bits, asymmetric, groups of 32");
/// assert!(WeightFormat::try_new(5).is_err());
/// # Ok::<(), updraft_quant::FormatError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct WeightFormat {
    bits: u8,
    is_asymmetric: bool,
    /// Weights of a group; a whole channel if 0.
    group: u32,
}

/// Errors of a weight format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A number of bits without a format.
    #[error("weights of {bits} bits are not supported; the nearest supported number is {nearest}")]
    Bits {
        /// What was asked for.
        bits: u8,
        /// The nearest of 8, 4, 3, 2 and 1.
        nearest: u8,
    },
    /// A zero point for bits that have none.
    #[error(
        "weights of {bits} bits cannot be asymmetric: with a zero point, eight bits do not fit into \
         the signed bytes that are multiplied, and one bit has no other code; 4, 3 and 2 bits can"
    )]
    Asymmetric {
        /// The bits.
        bits: u8,
    },
    /// Groups for weights of eight bits.
    #[error(
        "weights of 8 bits cannot have groups: the multiplier of a group and a code share a signed \
         byte; 4, 3, 2 and 1 bits can"
    )]
    Groups,
    /// Groups without weights.
    #[error("a group of 0 weights is empty; the smallest group has 1")]
    EmptyGroup,
}

/// The fields in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    bits: u8,
    asymmetric: bool,
    group: Option<u32>,
}

impl From<WeightFormat> for Fields {
    fn from(format: WeightFormat) -> Self {
        let WeightFormat { bits, is_asymmetric, .. } = format;
        Self { bits, asymmetric: is_asymmetric, group: format.group() }
    }
}

impl TryFrom<Fields> for WeightFormat {
    type Error = FormatError;

    fn try_from(fields: Fields) -> Result<Self, FormatError> {
        let mut format = Self::try_new(fields.bits)?;
        if fields.asymmetric {
            format = format.try_asymmetric()?;
        }
        match fields.group {
            Some(group) => format.try_groups_of(group),
            None => Ok(format),
        }
    }
}

impl WeightFormat {
    /// Eight bits, symmetric, one scale for each channel.
    pub const INT8: Self = Self { bits: 8, is_asymmetric: false, group: 0 };

    /// Four bits, symmetric, one scale for each channel.
    pub const INT4: Self = Self { bits: 4, is_asymmetric: false, group: 0 };

    /// Symmetric weights of 8, 4, 3, 2 or 1 bits, with one scale for each channel.
    ///
    /// Weights of one bit are the scale or its negative, none is zero.
    ///
    /// # Errors
    /// [`FormatError::Bits`] for another number of bits.
    pub const fn try_new(bits: u8) -> Result<Self, FormatError> {
        match bits {
            1..=4 | 8 => Ok(Self { bits, is_asymmetric: false, group: 0 }),
            0 => Err(FormatError::Bits { bits, nearest: 1 }),
            5 => Err(FormatError::Bits { bits, nearest: 4 }),
            _ => Err(FormatError::Bits { bits, nearest: 8 }),
        }
    }

    /// The same with a zero point for each channel or group, so that all codes are used.
    ///
    /// # Errors
    /// [`FormatError::Asymmetric`] for 8 bits and 1 bit.
    pub const fn try_asymmetric(self) -> Result<Self, FormatError> {
        match self.bits {
            2..=4 => Ok(Self { is_asymmetric: true, ..self }),
            bits => Err(FormatError::Asymmetric { bits }),
        }
    }

    /// The same with a multiplier of the channel's scale for each group of consecutive weights; the
    /// last group of a channel may be smaller.
    ///
    /// # Errors
    /// [`FormatError::Groups`] for 8 bits, [`FormatError::EmptyGroup`].
    pub const fn try_groups_of(self, weights: u32) -> Result<Self, FormatError> {
        match (self.bits, weights) {
            (8, _) => Err(FormatError::Groups),
            (_, 0) => Err(FormatError::EmptyGroup),
            _ => Ok(Self { group: weights, ..self }),
        }
    }

    /// The bits of a weight.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// Whether the codes have a zero point.
    #[must_use]
    pub const fn is_asymmetric(self) -> bool {
        self.is_asymmetric
    }

    /// The weights of a group; `None` if a channel is one group.
    #[must_use]
    pub const fn group(self) -> Option<u32> {
        if self.group == 0 { None } else { Some(self.group) }
    }

    /// The groups of a channel of `each` weights.
    pub(crate) fn groups(self, each: usize) -> usize {
        self.group().map_or(1, |group| each.div_ceil(group as usize))
    }

    /// The group of a weight in its channel.
    pub(crate) fn group_of(self, weight: usize) -> usize {
        self.group().map_or(0, |group| weight / group as usize)
    }

    /// The greatest code, without a zero point.
    pub(crate) const fn most(self) -> i32 {
        match (self.bits, self.is_asymmetric) {
            (1, _) => 1,
            (bits, false) => (1 << (bits - 1)) - 1,
            (bits, true) => (1 << bits) - 1,
        }
    }

    /// The greatest multiplier, so that every product with a code is a signed byte.
    pub(crate) const fn most_multiplier(self) -> i32 {
        if self.group == 0 { 1 } else { 127 / self.most() }
    }

    /// The bytes of a layer's weights, scales and biases in a file.
    #[must_use]
    pub fn bytes(self, channels: usize, each: usize) -> usize {
        let groups = self.groups(each);
        let of_groups = usize::from(self.group > 0) + usize::from(self.is_asymmetric);
        let row = (each * usize::from(self.bits)).div_ceil(8);
        channels * (row + groups * of_groups + size_of::<f32>() + size_of::<i32>())
    }
}

impl Default for WeightFormat {
    fn default() -> Self {
        Self::INT8
    }
}

/// Such as `4 bits, asymmetric, groups of 32`.
impl std::fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bit{}", self.bits, if self.bits == 1 { "" } else { "s" })?;
        if self.is_asymmetric {
            f.write_str(", asymmetric")?;
        }
        self.group().map_or(Ok(()), |group| write!(f, ", groups of {group}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_without_a_format_are_refused_with_the_nearest() {
        for (bits, nearest) in [(0, 1), (5, 4), (6, 8), (7, 8), (9, 8), (255, 8)] {
            assert_eq!(WeightFormat::try_new(bits), Err(FormatError::Bits { bits, nearest }));
        }
        let format = |bits| WeightFormat::try_new(bits).expect("supported");
        assert_eq!(format(8).try_asymmetric(), Err(FormatError::Asymmetric { bits: 8 }));
        assert_eq!(format(1).try_asymmetric(), Err(FormatError::Asymmetric { bits: 1 }));
        assert_eq!(format(8).try_groups_of(32), Err(FormatError::Groups));
        assert_eq!(format(4).try_groups_of(0), Err(FormatError::EmptyGroup));
    }

    #[test]
    fn bytes_by_hand() {
        let format = |bits| WeightFormat::try_new(bits).expect("supported");
        // Two channels of nine weights, each with a scale and a bias.
        assert_eq!(format(8).bytes(2, 9), 2 * (9 + 8));
        assert_eq!(format(4).bytes(2, 9), 2 * (5 + 8));
        assert_eq!(format(3).bytes(2, 9), 2 * (4 + 8));
        assert_eq!(format(1).bytes(2, 9), 2 * (2 + 8));
        let grouped = format(4).try_groups_of(4).and_then(WeightFormat::try_asymmetric);
        assert_eq!(grouped.expect("supported").bytes(2, 9), 2 * (5 + 2 * 3 + 8));
    }

    #[test]
    fn products_of_codes_and_multipliers_are_signed_bytes() {
        for bits in [4, 3, 2, 1] {
            for is_asymmetric in [false, true] {
                let format = WeightFormat { bits, is_asymmetric, group: 8 };
                assert!(format.most() * format.most_multiplier() <= 127);
                assert!(format.most() * (format.most_multiplier() + 1) > 127);
            }
        }
    }

    #[test]
    fn a_format_is_read_as_it_was_written_and_checked() {
        let format = WeightFormat::try_new(3).and_then(|format| format.try_groups_of(16));
        let format = format.and_then(WeightFormat::try_asymmetric).expect("supported");
        let text = serde_json::to_string(&format).expect("a text");
        assert_eq!(serde_json::from_str::<WeightFormat>(&text).expect("a format"), format);
        for text in [
            "{\"bits\":5,\"asymmetric\":false,\"group\":null}",
            "{\"bits\":8,\"asymmetric\":true,\"group\":null}",
            "{\"bits\":4,\"asymmetric\":true,\"group\":0}",
        ] {
            assert!(serde_json::from_str::<WeightFormat>(text).is_err(), "{text}");
        }
    }
}
