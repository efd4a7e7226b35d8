//! Wraps text to lines of at most eighty columns.

/// The largest width of a line, if no word is longer.
const COLUMNS: usize = 80;

/// Indentation of a text that begins on the line below its start.
const BELOW: usize = 4;

/// Wraps `text` after `start`, with the following lines indented to the same column. If a word is
/// too long for that, the whole text begins on the line below `start`.
pub(crate) fn hanging(start: &str, text: &str) -> String {
    let width = |text: &str| text.chars().count();
    let beside = COLUMNS.saturating_sub(width(start));
    let longest = text.split_whitespace().map(width).max().unwrap_or(0);
    let (mut all, indent) = match longest > beside && width(start) > BELOW {
        true => (format!("{}\n{:BELOW$}", start.trim_end(), ""), BELOW),
        false => (start.to_owned(), width(start)),
    };
    all += &wrapped(text, COLUMNS.saturating_sub(indent)).join(&format!("\n{:indent$}", ""));
    all.truncate(all.trim_end().len());
    all
}

/// Wraps a text to lines of at most `width` columns; at least one line.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    // Spaces between columns are kept if nothing is wrapped.
    if text.chars().count() <= columns {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(word.to_owned());
        } else {
            *line += &format!(" {word}");
        }
    }
    lines
}

/// A count with a noun: `1 epoch`, `2 epochs`.
pub(crate) fn counted(count: u64, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_indented_below_its_first_word_and_short_text_is_one_line() {
        assert_eq!(hanging("run  ", "a b"), "run  a b");
        let text = ["word"; 30].join(" ");
        let all = hanging("start    ", &text);
        assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
        assert!(all.lines().skip(1).all(|line| line.starts_with("         word")), "{all}");
        assert_eq!(all.split_whitespace().count(), 31);
        assert_eq!(hanging("", "   a    b"), "   a    b");
        let word = "x".repeat(60);
        let found = hanging(&format!("name   {:20}", "file"), &format!("a b {word}"));
        assert_eq!(found, format!("name   file\n    a b {word}"));
        let found =
            hanging(&format!("name   {:20}", "file"), &format!("a b {} {word}", "c".repeat(20)));
        assert_eq!(found, format!("name   file\n    a b {}\n    {word}", "c".repeat(20)));
        let long = "x".repeat(100);
        assert_eq!(hanging("  ", &long), format!("  {long}"));
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([1, 2].map(|count| counted(count, "epoch")), ["1 epoch", "2 epochs"]);
    }
}
