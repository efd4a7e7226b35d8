//! Text of a user, as an error shows it.

/// The largest number of characters of a value or a key in an error.
const MOST_SHOWN: usize = 120;

/// The largest number of characters of a number without an exponent: the seventeen digits that
/// identify an f64, with sign, point and a few zeros.
const MOST_OF_NUMBER: usize = 24;

/// The text with an exponent in each of its long numbers; if it is long, its start.
pub(crate) fn shortened(text: &str) -> String {
    cut(&with_exponents(text))
}

/// The text; if it is long, its start.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A value in TOML; numbers stand between these characters, or at its start or end.
fn with_exponents(text: &str) -> String {
    let words = text.split_inclusive([' ', ',', '[', ']', '{', '}']);
    let shown = |word: &str| {
        let number = word.trim_end_matches([' ', ',', '[', ']', '{', '}']);
        match number.parse::<f64>() {
            Ok(value) if number.len() > MOST_OF_NUMBER && value.is_finite() => {
                format!("{value:e}{}", &word[number.len()..])
            }
            _ => word.to_owned(),
        }
    };
    words.map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_and_long_numbers_have_an_exponent() {
        assert_eq!(shortened("0.000001"), "0.000001");
        assert_eq!(shortened("0.1000000000000000055"), "0.1000000000000000055");
        assert_eq!(shortened("-9223372036854775808"), "-9223372036854775808");
        assert_eq!(shortened(&1e-50_f64.to_string()), "1e-50");
        assert_eq!(shortened(&1e-310_f64.to_string()), "1e-310");
        assert_eq!(shortened(&format!("{}.0", -1e300)), "-1e300");
        let text = format!("{{ scale = {}, list = [{}, 1.0] }}", 1e-50, -1e300);
        assert_eq!(shortened(&text), "{ scale = 1e-50, list = [-1e300, 1.0] }");
        assert_eq!(shortened(&"é".repeat(120)), "é".repeat(120));
        assert_eq!(shortened(&"é".repeat(60_000)), format!("{}…", "é".repeat(120)));
    }
}
