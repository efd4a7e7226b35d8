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
        match self {
            Self::F32 => bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes())),
            Self::Bf16 => bytes.extend(numbers.iter().flat_map(|&x| to_bf16(x).to_le_bytes())),
        }
    }

    /// The numbers that `bytes` hold.
    pub(crate) fn decode(self, bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
        bytes.chunks_exact(self.bytes()).map(move |number| match *number {
            [low, high] => f32::from_le_bytes([0, 0, low, high]),
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]),
            _ => unreachable!("chunks have the length of a number"),
        })
    }
}

/// The upper half of a number, rounded to nearest even; NaN stays NaN.
fn to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    let upper = u16::try_from(bits >> 16).expect("16 bits are left");
    if number.is_nan() {
        return upper | 0x0040;
    }
    let lower = bits & 0xffff;
    let rounds_up = lower > 0x8000 || (lower == 0x8000 && upper % 2 == 1);
    upper + u16::from(rounds_up)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(wire: Wire, number: f32) -> f32 {
        let mut bytes = Vec::new();
        wire.encode(&[number], &mut bytes);
        assert_eq!(bytes.len(), wire.bytes());
        wire.decode(&bytes).next().unwrap()
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
