//! The settings in the text of one option.

/// Splits settings at spaces outside quotes, brackets and braces.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quote, mut depth) = (None, 0_usize);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) if depth == 0 && c.is_whitespace() => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        words.last_mut().expect("there is a word").push(c);
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_divided_by_spaces_outside_quotes_and_brackets() {
        let text = r#"a.b=1  name="two words" t={ kind = "x y", n = [1, 2] } c='d "e'"#;
        let expected =
            ["a.b=1", r#"name="two words""#, r#"t={ kind = "x y", n = [1, 2] }"#, r#"c='d "e'"#];
        assert_eq!(words(text), expected);
        assert_eq!(words("  "), [""; 0]);
    }
}
