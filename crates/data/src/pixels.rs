//! The values of a raster, in one of three types.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// The type of a raster's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PixelType {
    /// Unsigned 8-bit integers; 255 counts as 1.
    U8,
    /// Unsigned 16-bit integers; 65,535 counts as 1.
    U16,
    /// 32-bit floating-point numbers; 1 counts as 1.
    F32,
}

impl PixelType {
    /// The bytes of one value.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::F32 => 4,
        }
    }

    /// The value that counts as 1: the divisor of normalization.
    #[must_use]
    pub const fn one(self) -> f32 {
        match self {
            Self::U8 => u8::ONE,
            Self::U16 => u16::ONE,
            Self::F32 => f32::ONE,
        }
    }
}

impl Display for PixelType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::F32 => "f32",
        })
    }
}

/// The values of a raster, borrowed or owned.
#[derive(Debug, Clone, PartialEq)]
pub enum Pixels<'a> {
    /// Unsigned 8-bit integers.
    U8(Cow<'a, [u8]>),
    /// Unsigned 16-bit integers.
    U16(Cow<'a, [u16]>),
    /// 32-bit floating-point numbers.
    F32(Cow<'a, [f32]>),
}

impl Pixels<'_> {
    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::F32(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the values.
    #[must_use]
    pub const fn pixel_type(&self) -> PixelType {
        match self {
            Self::U8(_) => PixelType::U8,
            Self::U16(_) => PixelType::U16,
            Self::F32(_) => PixelType::F32,
        }
    }

    /// The bytes of the values, little-endian.
    pub(crate) fn to_le_bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::U8(values) => Cow::Borrowed(values),
            Self::U16(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::F32(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    /// The values of [`to_le_bytes`](Self::to_le_bytes); bytes of an incomplete last value are
    /// ignored.
    pub(crate) fn from_le_bytes(pixel_type: PixelType, bytes: Vec<u8>) -> Pixels<'static> {
        match pixel_type {
            PixelType::U8 => bytes.into(),
            PixelType::U16 => {
                let (values, _) = bytes.as_chunks::<2>();
                values.iter().map(|&value| u16::from_le_bytes(value)).collect::<Vec<_>>().into()
            }
            PixelType::F32 => {
                let (values, _) = bytes.as_chunks::<4>();
                values.iter().map(|&value| f32::from_le_bytes(value)).collect::<Vec<_>>().into()
            }
        }
    }

    /// The same values, borrowed.
    pub(crate) fn borrowed(&self) -> Pixels<'_> {
        match self {
            Self::U8(values) => Pixels::U8(Cow::Borrowed(values)),
            Self::U16(values) => Pixels::U16(Cow::Borrowed(values)),
            Self::F32(values) => Pixels::F32(Cow::Borrowed(values)),
        }
    }

    /// The same values, copied if they were borrowed.
    pub(crate) fn into_owned(self) -> Pixels<'static> {
        match self {
            Self::U8(values) => Pixels::U8(Cow::Owned(values.into_owned())),
            Self::U16(values) => Pixels::U16(Cow::Owned(values.into_owned())),
            Self::F32(values) => Pixels::F32(Cow::Owned(values.into_owned())),
        }
    }
}

/// A type that the values of a raster may have.
pub(crate) trait Element: Copy + Default + PartialEq {
    /// The value that counts as 1.
    const ONE: f32;

    /// The value as a number.
    fn to_f32(self) -> f32;

    /// Converts a number: integers are rounded and clamped to their range.
    fn from_f32(number: f32) -> Self;
}

macro_rules! pixels_of {
    ($kind:ident, $element:ty, $one:expr, $to:expr, $from:expr) => {
        impl From<Vec<$element>> for Pixels<'_> {
            fn from(values: Vec<$element>) -> Self {
                Self::$kind(Cow::Owned(values))
            }
        }

        impl<'a> From<&'a [$element]> for Pixels<'a> {
            fn from(values: &'a [$element]) -> Self {
                Self::$kind(Cow::Borrowed(values))
            }
        }

        impl<'a> From<Cow<'a, [$element]>> for Pixels<'a> {
            fn from(values: Cow<'a, [$element]>) -> Self {
                Self::$kind(values)
            }
        }

        impl Element for $element {
            const ONE: f32 = $one;

            #[inline(always)]
            fn to_f32(self) -> f32 {
                ($to)(self)
            }

            #[inline(always)]
            fn from_f32(number: f32) -> Self {
                ($from)(number)
            }
        }
    };
}

pixels_of!(U8, u8, 255.0, f32::from, |number: f32| number.round() as u8);
pixels_of!(U16, u16, 65_535.0, f32::from, |number: f32| number.round() as u16);
pixels_of!(F32, f32, 1.0, |value| value, |number: f32| number);
