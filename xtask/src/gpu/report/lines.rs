//! Texts in the columns of a terminal.

/// A text in lines of at most this many columns, which are not broken inside backquotes; a longer
/// word has a line of its own.
pub(super) fn filled(text: &str, columns: usize) -> Vec<String> {
    let has_pairs = text.matches('`').count().is_multiple_of(2);
    let mut is_inside = false;
    let words = text.split(move |c: char| {
        is_inside ^= c == '`' && has_pairs;
        c.is_whitespace() && !is_inside
    });
    let mut lines = vec![String::new()];
    for word in words.filter(|word| !word.is_empty()) {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_not_in_what_is_typed() {
        assert_eq!(filled("a b c", 3), ["a b", "c"]);
        assert_eq!(filled("use `a b`, or c", 7), ["use", "`a b`,", "or c"]);
        assert_eq!(filled("one ` b", 5), ["one `", "b"]);
        assert_eq!(filled("", 5), [""]);
    }
}
