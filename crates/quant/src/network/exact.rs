//! Numbers in JSON without rounding: as texts, which also represent NaN and infinity.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number that is written as the shortest text that it is read back from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Exact<T>(pub(crate) T);

impl<T: Debug> Serialize for Exact<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:?}", self.0))
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Exact<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|error| D::Error::custom(format!("`{text}`: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_to_their_last_bit() {
        let mut state = 1_u32;
        for _ in 0..10_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = Exact(f32::from_bits(state));
            let text = serde_json::to_string(&number).expect("a text");
            let back: Exact<f32> = serde_json::from_str(&text).expect("a number");
            assert!(back == number || number.0.is_nan() && back.0.is_nan(), "{text}");
        }
        assert!(serde_json::from_str::<Exact<f32>>("\"one\"").is_err());
    }
}
