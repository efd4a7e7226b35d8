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
