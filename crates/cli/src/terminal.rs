//! Output of commands: results to standard output, messages to standard error.
//!
//! Names of classes, columns and files are untrusted. A control character in one of them could move
//! the cursor, recolor the screen or hide a line, so they are escaped.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::command::cannot;

/// Prints a result to standard output and waits until it is written.
///
/// A closed pipe, as by `head`, is not an error.
///
/// # Errors
/// An error for any other output that cannot be written, such as one on a full disk.
pub(crate) fn print(text: &str) -> Result<()> {
    written(writeln!(stdout(), "{}", visible(text)).and_then(|()| stdout().flush()))
}

/// Prints a line of JSON to standard output, which is valid for any texts.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_json(value: &Value) -> Result<()> {
    written(writeln!(stdout(), "{}", json_text(value)).and_then(|()| stdout().flush()))
}

/// JSON in which control characters are escaped, such as `\u001b`.
pub(crate) fn json_text(value: &Value) -> String {
    let text = value.to_string();
    if !text.chars().any(is_active) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_active(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether output was written, or the reader closed the pipe.
pub(crate) fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => {
            Err(cannot("write", Path::new("standard output"), cause))
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error; errors of a closed one are ignored.
pub(crate) fn say(text: &str) {
    // In one piece, because ranks share standard error.
    let _ = stderr().write_all(format!("{}\n", visible(text)).as_bytes());
}

/// Prints an error of the arguments or a help text, which may repeat what was typed.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_usage(error: &clap::Error) -> Result<()> {
    let plain = error.render().to_string();
    match visible(&plain) {
        Cow::Borrowed(_) => written(error.print()),
        Cow::Owned(text) => written(stderr().write_all(text.as_bytes())),
    }
}

/// A text with its control characters as Rust writes them, such as `\u{1b}`; line breaks and tabs
/// stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_active(c) && c != '\n' && c != '\t')
}

/// A text in which control characters stay, such as the colors of a record, and invisible ones do
/// not.
pub(crate) fn without_invisible(text: &str) -> Cow<'_, str> {
    escaped(text, is_invisible)
}

/// A name on one line, with control characters escaped.
pub(crate) fn name(text: &str) -> Cow<'_, str> {
    escaped(text, is_active)
}

fn escaped(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Whether a terminal or a browser interprets a character instead of showing it, or shows nothing.
fn is_active(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Whether a character is a line separator, a bidirectional mark or another one without a shape,
/// which changes what is around it or makes two names look alike.
///
/// # Source
/// The Unicode Character Database, version 16: the categories Zl, Zp and Cf without the marks that
/// have a shape, and the fillers, whose category is Lo.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}' | '\u{1160}'
            | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_do_nothing() {
        for (text, expected) in [
            ("cat", "cat"),
            ("größe → 3 %", "größe → 3 %"),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\u{9b}31mb", "a\\u{9b}31mb"),
            ("a\rb\u{7}", "a\\rb\\u{7}"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
            ("\u{200f}a\u{2066}b\u{2069}", "\\u{200f}a\\u{2066}b\\u{2069}"),
            ("a\u{ad}b\u{61c}\u{e0041}", "a\\u{ad}b\\u{61c}\\u{e0041}"),
            ("a\u{a0}b\u{301}日本", "a\u{a0}b\u{301}日本"),
            ("a\n\tb", "a\n\tb"),
        ] {
            assert_eq!(visible(text), expected);
        }
        assert_eq!(name("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(without_invisible("\u{1b}[1ma\u{2028}\n"), "\u{1b}[1ma\\u{2028}\n");
    }

    #[test]
    fn json_with_control_characters_stays_json_and_has_none() {
        let value = serde_json::json!({ "class": "a\u{1b}[2J\u{9b}31m\u{202e}\u{7f}ü" });
        let text = json_text(&value);
        assert!(!text.chars().any(is_active), "{text:?}");
        assert!(text.contains("\\u202e") && text.contains('ü'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }

    #[test]
    fn only_a_closed_pipe_is_no_error() {
        assert!(written(Err(ErrorKind::BrokenPipe.into())).is_ok());
        let error = written(Err(ErrorKind::StorageFull.into())).expect_err("a full disk");
        assert!(error.to_string().starts_with("cannot write `standard output`: "), "{error}");
    }
}
