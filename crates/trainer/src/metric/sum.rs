//! A sum in f64 that a checkpoint restores bit for bit.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bits::Bits;

/// A sum in f64 that serializes as its bits, in hexadecimal digits, because JSON readers may round
/// decimals.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sum(f64);

impl Sum {
    /// Adds a number.
    pub fn add(&mut self, number: f64) {
        self.0 += number;
    }

    /// The sum so far.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.0
    }
}

impl From<f64> for Sum {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Bits::of(self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Bits::deserialize(deserializer).map(|bits| Self(bits.number()))
    }
}
