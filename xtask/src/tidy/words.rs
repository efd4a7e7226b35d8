//! Words of documents, comments and messages, in sources and in TOML: standard terms instead of
//! figures of speech.

use crate::tidy::Fault;
use crate::tidy::literals::literals;
use crate::tidy::workspace::Workspace;

/// The file whose literals are the words themselves.
const THIS: &str = "xtask/src/tidy/words.rs";

/// Words that a reader has to decode, and what to write instead.
const BANNED: [(&str, &str); 32] = [
    ("a file each", "`one per file`"),
    ("bare slices", "`slices`"),
    ("borne", "`taken` or `confirmed`"),
    ("brought to", "`resized to`, `converted to` or `moved to`"),
    ("cut short", "`truncated`"),
    ("doubters", "`tests and benchmarks`"),
    ("go on", "`continue`"),
    ("goes on", "`continues`"),
    ("gone on with", "`resumed`"),
    ("hang together", "`are connected`"),
    ("hears", "`receives`"),
    ("in front of", "`before`"),
    ("in the place of", "`instead of`"),
    ("inside of", "`inside`"),
    ("junk", "what it is"),
    ("laws", "`rules`"),
    ("meet only themselves", "`depthwise`"),
    ("mend", "`fix`"),
    ("mended", "`fixed`"),
    ("mends", "`fixes`"),
    ("nobody", "what does not: `no code`, `no reader`"),
    ("one a file", "`one per file`"),
    ("rests on", "`depends on`"),
    ("rooms", "`crates`, `folders` or `layers`"),
    ("somebody", "who it is: `a user`, `a caller`"),
    ("tell", "`report`, `return` or `print`"),
    ("tells", "`reports`, `returns` or `prints`"),
    ("the house", "`the repository`"),
    ("told", "`reported` or `given`"),
    ("what is not finite", "`non-finite values`"),
    ("whichever", "`any`, or which one"),
    ("whoever", "who it is: `a user`, `a caller`"),
];

pub(super) fn faults(workspace: &Workspace) -> Vec<Fault> {
    let documents = workspace.with_ending(".md").map(|(path, text)| (path, text, is_prose as Part));
    let sources = workspace.with_ending(".rs").map(|(path, text)| (path, text, comment as Part));
    let configs = workspace.with_ending(".toml").map(|(path, text)| (path, text, hash as Part));
    documents
        .chain(sources)
        .chain(configs)
        .flat_map(|(path, text, part)| check(path, text, part))
        .chain(workspace.with_ending(".rs").flat_map(|(path, text)| check_literals(path, text)))
        .collect()
}

/// Checks the string literals of a source, except those of tests.
fn check_literals(path: &str, text: &str) -> Vec<Fault> {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    if is_test || path == THIS {
        return Vec::new();
    }
    let found = literals(text).into_iter();
    found.flat_map(|(line, literal)| words_of(path, line, &literal)).collect()
}

/// The part of a line that is prose; the flag says whether the line is in a block of code.
type Part = fn(&str, bool) -> &str;

fn check(path: &str, text: &str, part: Part) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start_matches(['/', '!', ' ']);
        is_code ^= fence.starts_with("```");
        faults.extend(words_of(path, number, part(line, is_code)));
    }
    faults
}

/// The banned words of a text.
fn words_of(path: &str, line: usize, text: &str) -> Vec<Fault> {
    let text = text.to_lowercase();
    let found = BANNED.iter().filter(|(word, _)| has_word(&text, word));
    let fault = |(word, instead): &(&str, &str)| {
        Fault::new(format!("{path}:{line}"), format!("`{word}`: write {instead}"))
    };
    found.map(fault).collect()
}

fn is_prose(line: &str, is_code: bool) -> &str {
    if is_code { "" } else { line }
}

/// The text after `//`, except in addresses of pages.
fn comment(line: &str, is_code: bool) -> &str {
    match line.split_once("//") {
        Some((before, after)) if !is_code && !before.ends_with(':') => after,
        _ => "",
    }
}

/// A line that is a comment in TOML.
fn hash(line: &str, _: bool) -> &str {
    line.trim_start().strip_prefix('#').unwrap_or("")
}

/// Whether a text has a word, or several in a row, as a whole.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let is_part = |letter: Option<char>| {
            letter.is_some_and(|letter| letter.is_alphanumeric() || "_`\"".contains(letter))
        };
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole_and_in_prose_alone() {
        let words = |text: &str, part| check("a", text, part).len();
        assert_eq!(words("It Tells.\n```\nit tells\n```\n", is_prose), 1);
        assert_eq!(words("`told` and storytells", is_prose), 0);
        assert_eq!(words(concat!("let told = 1; /", "/ it was told\n"), comment), 1);
        let example = concat!("/", "// ```\n//", "/ to", "ld\n/", "// ```\nlet x = 1;\n");
        assert_eq!(words(example, comment), 0);
    }
}
