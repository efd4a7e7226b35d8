//! Text of a user, as an error shows it.

/// The largest number of characters of a value or a key in an error.
const MOST_SHOWN: usize = 120;

/// The text; if it is long, its start, or with an exponent if it is a number.
pub(crate) fn shortened(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(MOST_SHOWN) else { return text.to_owned() };
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => format!("{number:e}"),
        _ => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_and_long_numbers_have_an_exponent() {
        assert_eq!(shortened("0.000001"), "0.000001");
        assert_eq!(shortened(&1e-310_f64.to_string()), "1e-310");
        assert_eq!(shortened(&format!("{}.0", -1e300)), "-1e300");
        assert_eq!(shortened(&"é".repeat(120)), "é".repeat(120));
        assert_eq!(shortened(&"é".repeat(60_000)), format!("{}…", "é".repeat(120)));
    }
}
