//! Numbers of a checkpoint that are restored bit for bit.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The bits of an f64, which serialize as sixteen hexadecimal digits, because JSON readers may
/// round decimals, and an integer would look like a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bits(u64);

impl Bits {
    pub(crate) const fn of(number: f64) -> Self {
        Self(number.to_bits())
    }

    pub(crate) const fn number(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Serialize for Bits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Bits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let is_hex = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u64::from_str_radix(&digits, 16) {
            Ok(bits) if is_hex => Ok(Self(bits)),
            _ => Err(D::Error::custom(format!("`{digits}` is not 16 hexadecimal digits"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_to_the_bit_and_other_texts_do_not() {
        for number in [0.0, -0.0, 0.1, 1e300, f64::MIN_POSITIVE / 8.0, f64::INFINITY, f64::NAN] {
            let text = serde_json::to_string(&Bits::of(number)).expect("text");
            let back: Bits = serde_json::from_str(&text).expect("the same");
            assert_eq!(back.number().to_bits(), number.to_bits(), "{text}");
        }
        for text in ["4602678819172646912", "\"3fe\"", "\"+fe0000000000000\"", "null"] {
            assert!(serde_json::from_str::<Bits>(text).is_err(), "{text}");
        }
    }
}
