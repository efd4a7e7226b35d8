//! The format of numbers between ranks.

/// The format of gradients between ranks; sums are computed in f32 in either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wire {
    /// Four bytes a number, exact.
    #[default]
    F32,
    /// Two bytes a number: the upper half of an f32, rounded to nearest even.
    Bf16,
}

impl Wire {
    /// Bytes of one number.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// Appends the numbers to `bytes`.
    pub(crate) fn encode(self, numbers: &[f32], bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.resize(start + numbers.len() * self.bytes(), 0);
        let added = &mut bytes[start..];
        match self {
            Self::F32 => {
                for (bytes, number) in added.as_chunks_mut().0.iter_mut().zip(numbers) {
                    *bytes = number.to_le_bytes();
                }
            }
            Self::Bf16 => {
                for (bytes, number) in added.as_chunks_mut().0.iter_mut().zip(numbers) {
                    *bytes = to_bf16(*number).to_le_bytes();
                }
            }
        }
    }

    /// Calls `take` with each of `numbers` and the number in its place in `bytes`, while both last.
    pub(crate) fn decode(self, bytes: &[u8], numbers: &mut [f32], take: impl Fn(&mut f32, f32)) {
        match self {
            Self::F32 => {
                for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
                    take(number, f32::from_le_bytes(*bytes));
                }
            }
            Self::Bf16 => {
                for (number, &[low, high]) in numbers.iter_mut().zip(bytes.as_chunks().0) {
                    take(number, f32::from_le_bytes([0, 0, low, high]));
                }
            }
        }
    }
}

/// The upper half of a number, rounded to nearest even; NaN stays NaN.
fn to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    let is_odd = (bits >> 16) & 1;
    let rounded = bits.wrapping_add(0x7fff + is_odd);
    let bits = if number.is_nan() { bits | 0x0040_0000 } else { rounded };
    (bits >> 16) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(wire: Wire, number: f32) -> f32 {
        let mut bytes = Vec::new();
        wire.encode(&[number], &mut bytes);
        assert_eq!(bytes.len(), wire.bytes());
        let mut numbers = [0.0];
        wire.decode(&bytes, &mut numbers, |number, decoded| *number = decoded);
        numbers[0]
    }

    #[test]
    fn bf16_rounds_to_nearest_even() {
        let cases = [
            (1.0, 1.0),
            (1.003_906_25, 1.0),
            (1.011_718_75, 1.015_625),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
            (-0.0, -0.0),
        ];
        for (number, expected) in cases {
            let found = round_trip(Wire::Bf16, number);
            assert_eq!(found.to_bits(), f32::to_bits(expected), "{number}");
        }
        assert!(round_trip(Wire::Bf16, f32::from_bits(0x7f80_0001)).is_nan());
    }

    proptest! {
        #[test]
        fn f32_is_exact_and_bf16_within_half_a_step(number in -1e30f32..1e30) {
            prop_assert_eq!(round_trip(Wire::F32, number).to_bits(), number.to_bits());
            let error = (round_trip(Wire::Bf16, number) - number).abs();
            prop_assert!(error <= number.abs() / 256.0);
        }
    }
}
