//! The text of a field in an error.

/// The largest number of characters of a field or a name in an error.
const MOST_SHOWN: usize = 120;

/// The text; if it is long, its start.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What a field has to be whose text does not fit: for a number beyond f64, a smaller one.
pub(super) fn expected_instead(expected: &'static str, text: &str) -> &'static str {
    let is_number = text.bytes().any(|byte| byte.is_ascii_digit());
    match text.parse::<f64>() {
        Ok(number) if number.is_infinite() && is_number => {
            "a number in the range of f64, which ends at 1.8e308"
        }
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut() {
        assert_eq!(shortened("é"), "é");
        assert_eq!(shortened(&"é".repeat(120)), "é".repeat(120));
        assert_eq!(shortened(&"é".repeat(2_000_000)), format!("{}…", "é".repeat(120)));
    }

    #[test]
    fn only_a_number_beyond_f64_is_one_that_is_too_large() {
        for text in ["1e400", "-2.5e999"] {
            assert!(expected_instead("a finite number", text).contains("range of f64"), "{text}");
        }
        for text in ["inf", "-infinity", "nan", "1e", "large"] {
            assert_eq!(expected_instead("a finite number", text), "a finite number");
        }
    }
}
