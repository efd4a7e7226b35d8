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

/// An error as it is printed: on a terminal in lines that are indented below its first word, and
/// elsewhere on one line, which other programs read.
///
/// What is in backquotes, such as a command, stays on one line, so that it can be copied.
pub(crate) fn error(text: &str, is_terminal: bool) -> String {
    const START: &str = "error: ";
    if !is_terminal {
        return format!("{START}{text}");
    }
    let columns = COLUMNS - START.len();
    let lines = text.lines().flat_map(|line| match line.chars().count() <= columns {
        true => vec![line.to_owned()],
        false => filled(quoted_words(line), columns),
    });
    let lines: Vec<String> = lines.collect();
    format!("{START}{}", lines.join(&format!("\n{:1$}", "", START.len())))
}

/// The words of a line; what is in backquotes is a part of one word.
fn quoted_words(line: &str) -> impl Iterator<Item = &str> {
    // A quote without its end would keep the rest of the line together.
    let has_pairs = line.matches('`').count().is_multiple_of(2);
    let mut is_inside = false;
    let words = line.split(move |c: char| {
        is_inside ^= c == '`' && has_pairs;
        c.is_whitespace() && !is_inside
    });
    words.filter(|word| !word.is_empty())
}

/// Wraps a text to lines of at most `width` columns; at least one line.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    // Spaces between columns are kept if nothing is wrapped.
    if text.chars().count() <= columns {
        return vec![text.to_owned()];
    }
    filled(text.split_whitespace(), columns)
}

/// Words in lines of at most this many columns; a longer word has a line of its own.
fn filled<'a>(words: impl Iterator<Item = &'a str>, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words {
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
    fn an_error_is_one_line_but_on_a_terminal_where_commands_stay_whole() {
        let command = "`train --resume runs/2026-01-02-030405-a --checkpoint 12`";
        let text = format!(
            "the newest intact checkpoint of the run is that of step 12: continue the run from it \
             with {command}, then use it"
        );
        assert_eq!(error(&text, false), format!("error: {text}"));
        let lines = [
            "error: the newest intact checkpoint of the run is that of step 12: continue the",
            "       run from it with",
            &format!("       {command}, then use it"),
        ];
        assert!(lines.iter().all(|line| line.chars().count() <= 80));
        assert_eq!(error(&text, true), lines.join("\n"));
        assert_eq!(error("short", true), "error: short");
        assert_eq!(error("two\nlines", true), "error: two\n       lines");
        // A quote without an end, and a word that is longer than a line.
        let open = format!("`{}", "word ".repeat(40));
        let shown = error(&open, true);
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert_eq!(shown.split_whitespace().count(), 41);
        let long = format!("a {}", "x".repeat(100));
        assert_eq!(error(&long, true), format!("error: a\n       {}", "x".repeat(100)));
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([1, 2].map(|count| counted(count, "epoch")), ["1 epoch", "2 epochs"]);
    }
}
