//! The expected value, as the end of a sentence, from serde's error message.

/// Whether the text after "it must be" is only a range, such as "at least 1".
pub(super) fn is_range(expected: &str) -> bool {
    expected.starts_with(|first: char| first.is_ascii_digit())
        || ["at least ", "at most ", "above "].iter().any(|start| expected.starts_with(start))
}

/// The expected value for a key with several kinds.
pub(super) const A_KIND: &str = "a table with `kind`";

/// serde's expectation, as the text after "it must be".
pub(super) fn expected_by_serde(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    if let Some(field) = quoted_after(message, "missing field ") {
        return format!("a table with `{field}`");
    }
    let expected = message.split_once("expected ").map_or(message, |(_, expected)| expected);
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of at least 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "a string" | "path string" | "string only" => "a text in quotes",
        "a sequence" => "a list",
        table if table.starts_with("internally tagged enum ") => A_KIND,
        table if table.starts_with("struct ") || table.contains(" enum ") => "a table",
        list if list.starts_with("an array of length ") => {
            return list.replace("an array of length ", "a list of length ");
        }
        other => other,
    }
    .to_owned()
}

/// The text in backquotes after the start of a message.
pub(super) fn quoted_after<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.strip_prefix(start)?.split('`').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_serde_becomes_the_end_of_a_sentence() {
        for (message, expected) in [
            ("invalid type: string \"three\", expected u64", "a whole number of at least 0"),
            ("invalid type: boolean `true`, expected f32", "a number"),
            ("invalid length 2, expected an array of length 3", "a list of length 3"),
            ("unknown variant `x`, expected `a` or `b`", "`a` or `b`"),
            ("missing field `kind`", "a table with `kind`"),
            ("invalid type: integer `3`, expected struct Zoom", "a table"),
            ("expected `all` or a number", "`all` or a number"),
        ] {
            assert_eq!(expected_by_serde(message), expected, "{message}");
        }
        assert_eq!(quoted_after("unknown field `a`, expected `b`", "unknown field "), Some("a"));
        assert_eq!(quoted_after("missing field `a`", "unknown field "), None);
        assert!(is_range("at least 1") && is_range("8 to 4096 pixels"));
        assert!(!is_range("a finite number above 0"));
    }
}
