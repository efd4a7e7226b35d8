//! Numbers of text.

/// Powers of ten that f64 has exactly.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// The finite number of a text, correctly rounded.
#[inline]
pub(super) fn finite(text: &[u8]) -> Option<f64> {
    if let Some(number) = short(text) {
        return Some(number);
    }
    str::from_utf8(text).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The number of at most 15 digits, with or without a sign and a point. Digits and the power of ten
/// are exact in f64, so that their quotient is the nearest number.
///
/// # Source
/// Clinger 1990, How to read floating point numbers accurately, PLDI, the fast path.
#[inline]
fn short(text: &[u8]) -> Option<f64> {
    let (is_negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if rest.len() >= POWERS.len() {
        return None;
    }
    let (mut digits, mut point) = (0_u64, None);
    for (at, &byte) in rest.iter().enumerate() {
        match byte {
            b'0'..=b'9' => digits = 10 * digits + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(rest.len() - 1 - at),
            _ => return None,
        }
    }
    if rest.len() == usize::from(point.is_some()) {
        return None;
    }
    let number = digits as f64;
    let number = point.map_or(number, |decimals| number / POWERS[decimals]);
    Some(if is_negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_finite_number_is_none() {
        for text in ["", "-", ".", "-.", "1.2.3", "--1", "1e999", "inf", "NaN", "0x1", "1 ", "+"] {
            assert_eq!(finite(text.as_bytes()), None, "{text}");
        }
        for (text, number) in [("1.", 1.0), (".5", 0.5), ("+2", 2.0), ("1e3", 1000.0)] {
            assert_eq!(finite(text.as_bytes()), Some(number), "{text}");
        }
        assert_eq!(finite(b"-0").map(f64::to_bits), Some((-0.0_f64).to_bits()));
        assert_eq!(finite(b"1\xFF"), None);
    }

    proptest! {
        /// Bit by bit the number of the standard library.
        #[test]
        fn a_number_is_that_of_the_standard_library(
            text in "[-+]?[0-9]{0,12}[.]?[0-9]{0,12}(e[-]?[0-9]{1,2})?"
        ) {
            let expected = text.parse().ok().filter(|number: &f64| number.is_finite());
            prop_assert_eq!(finite(text.as_bytes()).map(f64::to_bits), expected.map(f64::to_bits));
        }
    }
}
