//! Numbers of text.

/// Powers of ten that f64 has exactly.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// The finite number of a text, correctly rounded.
#[inline]
pub(super) fn finite(text: &[u8]) -> Option<f64> {
    finite_at(text, 0, text.len())
}

/// The same of a part of a text.
#[inline]
pub(super) fn finite_at(text: &[u8], start: usize, end: usize) -> Option<f64> {
    short(text, start, end).or_else(|| of_library(&text[start..end]))
}

#[inline(never)]
fn of_library(text: &[u8]) -> Option<f64> {
    str::from_utf8(text).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// A word of equal bytes.
const fn all(byte: u8) -> u64 {
    u64::from_le_bytes([byte; WORD])
}

/// The number of at most 15 digits, with or without a minus sign and a point. Digits and the power
/// of ten are exact in f64, so that their quotient is the nearest number. `None` for other texts,
/// and for some at the end of the whole text.
///
/// # Source
/// Clinger 1990, How to read floating point numbers accurately, PLDI, the fast path.
#[inline]
fn short(text: &[u8], start: usize, end: usize) -> Option<f64> {
    let is_negative = text.get(start) == Some(&b'-');
    let first = start + usize::from(is_negative);
    let length = end.saturating_sub(first);
    if length == 0 || length > 2 * WORD {
        return None;
    }
    let word = |at: usize| Some(u64::from_le_bytes(*text.get(at..)?.first_chunk()?) ^ all(b'0'));
    // Digits as numbers, the last one in the highest byte, with zeros before the first.
    let (mut high, mut low) = match length.checked_sub(WORD) {
        None | Some(0) => (0, word(first)? << (8 * (WORD - length))),
        Some(more) => (word(first)? << (8 * (WORD - more)), word(end - WORD)?),
    };
    let (mut digits, mut decimals) = (length, None);
    if let Some(before) = before_point(low) {
        decimals = Some(before.count_zeros() as usize / 8 - 1);
        low = without_point(low, before) | high >> 56;
        high <<= 8;
        digits -= 1;
    } else if let Some(before) = before_point(high) {
        decimals = Some(before.count_zeros() as usize / 8 - 1 + WORD);
        high = without_point(high, before);
        digits -= 1;
    }
    if digits == 0 || digits >= POWERS.len() || !(are_digits(high) && are_digits(low)) {
        return None;
    }
    let number = (eight_digits(high) * 100_000_000 + eight_digits(low)) as f64;
    let number = decimals.map_or(number, |decimals| number / POWERS[decimals]);
    Some(if is_negative { -number } else { number })
}

/// The bits of the bytes before the first point, if there is one.
#[inline]
const fn before_point(word: u64) -> Option<u64> {
    let other = word ^ all(b'.' ^ b'0');
    // The lowest byte that is zero has its top bit set; no lower byte has.
    let found = other.wrapping_sub(all(1)) & !other & all(0x80);
    if found == 0 { None } else { Some(((found & found.wrapping_neg()) >> 7).wrapping_sub(1)) }
}

/// The word without its point: the bytes before it move into its place.
#[inline]
const fn without_point(word: u64, before: u64) -> u64 {
    let through = before << 8 | 0xFF;
    (word & !through) | ((word & before) << 8)
}

/// Whether all bytes are at most 9.
#[inline]
const fn are_digits(word: u64) -> bool {
    (word.wrapping_add(all(0x7F - 9)) | word) & all(0x80) == 0
}

/// The number of eight digits, of which the lowest byte is the first: pairs, then fours, then all.
#[inline]
const fn eight_digits(word: u64) -> u64 {
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8);
    let fours = (pairs & 0x00FF_00FF_00FF_00FF)
        .wrapping_mul(100)
        .wrapping_add((pairs >> 16) & 0x0000_00FF_0000_00FF);
    let fours = fours & 0x0000_FFFF_0000_FFFF;
    (fours & 0xFFFF) * 10_000 + (fours >> 32)
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

    #[test]
    fn a_number_in_the_middle_of_a_text_is_that_of_its_own_text() {
        for text in [
            "0",
            "7",
            "-7",
            "12345678",
            "123456789",
            "123456789012345",
            "1234567890123456",
            "123456789012345.",
            ".123456789012345",
            "-.5",
            "1.5",
            "1234567.8",
            "12345678.9",
            "123456.78901234",
            "-123456789.012345",
            "0.1",
            "00.10",
            "1..2",
            ".",
            "-",
            "1a",
            "a1",
            "12345678a",
            "a12345678",
            "1.2.3456789",
            "123456789.1.2",
            "1/",
            ":",
            "\u{b9}",
        ] {
            let expected = of_library(text.as_bytes()).map(f64::to_bits);
            for around in [(",", ""), ("", ",9"), ("1,", ",123456789"), (".5,", ",.5,,,,,,,,,")] {
                let whole = format!("{}{text}{}", around.0, around.1);
                let start = around.0.len();
                let found = finite_at(whole.as_bytes(), start, start + text.len());
                assert_eq!(found.map(f64::to_bits), expected, "`{text}` in `{whole}`");
            }
        }
        assert_eq!(short(b"-12.5,.......", 0, 5), Some(-12.5));
        assert_eq!(short(b"123456789.25,", 0, 12), Some(123_456_789.25));
    }

    proptest! {
        /// Bit by bit the number of the standard library.
        #[test]
        fn a_number_is_that_of_the_standard_library(
            text in "[-+]?[0-9]{0,12}[.]?[0-9]{0,12}(e[-]?[0-9]{1,2})?"
        ) {
            let expected = text.parse().ok().filter(|number: &f64| number.is_finite());
            prop_assert_eq!(finite(text.as_bytes()).map(f64::to_bits), expected.map(f64::to_bits));
            let longer = format!("{text},12345678");
            let found = finite_at(longer.as_bytes(), 0, text.len());
            prop_assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits));
        }
    }
}
