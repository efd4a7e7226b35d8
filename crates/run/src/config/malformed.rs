//! The message about a text that is not TOML.

use std::ops::Range;

use updraft_data::TextEncoding;

use super::shortened::cut;

/// The parser's message, in the words of a user where the parser names its own types or no key; the
/// span is its place in the text.
pub(super) fn message(text: &str, found: &str, span: Option<Range<usize>>) -> String {
    let span = span.unwrap_or(0..0);
    let before = text.get(..span.start).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default().trim();
    let line = cut(line);
    let found = found.trim();
    if found.starts_with("duplicate key") {
        let is_of_key = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        let key = text.get(span).unwrap_or_default().trim_matches(['[', ']', '"', '\'', ' ']);
        let is_key = !key.is_empty() && key.chars().all(is_of_key);
        let what = if is_key { format!("the key `{key}`") } else { format!("the key of `{line}`") };
        return format!("{what} is given twice; leave one out");
    }
    if found.starts_with("invalid type: integer") || found.starts_with("integer number overflowed")
    {
        return format!(
            "`{line}` has a whole number that is too large; the largest is 9223372036854775807"
        );
    }
    if found.starts_with("floating-point number overflowed") {
        return format!("`{line}` has a number that is too large; the largest is about 1.8e308");
    }
    if let Some(encoding) = TextEncoding::of_start(text.as_bytes()) {
        return format!(
            "the text has a character 0: it is likely encoded as {encoding}; save it as UTF-8, such \
             as with `{}`",
            encoding.conversion()
        );
    }
    if text.contains('\0') {
        return "the text has a character 0: it is damaged, or encoded as UTF-16; save it as UTF-8"
            .to_owned();
    }
    found.to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Plan;
    use crate::task::TASKS;

    #[test]
    fn errors_of_the_parser_name_the_key_and_what_it_must_be() {
        let message = |text: &str| {
            let read = Plan::read(TASKS, text, Path::new("c.toml"), &[]);
            read.map(drop).expect_err("refused").to_string()
        };
        let digits = format!("[train]\nepochs = {}\n", "9".repeat(50));
        for (text, place, words) in [
            ("[train]\nepochs = 3\nepochs = 4\n", "c.toml:3: ", ["epochs", "is given twice"]),
            ("[train]\nbatch = 3\n[train]\nepochs = 4\n", "c.toml:3: ", ["train", "given twice"]),
            (
                "[train]\nschedule = { kind = \"constant\", kind = \"constant\" }\n",
                "c.toml:2: ",
                ["kind", "is given twice"],
            ),
            (
                "[train]\nepochs = 99999999999999999999\n",
                "c.toml:2: ",
                ["`epochs = 99999999999999999999` has", "the largest is 9223372036854775807"],
            ),
            (
                digits.as_str(),
                "c.toml:2: ",
                ["`epochs = 9999", "the largest is 9223372036854775807"],
            ),
            ("[train]\nclip_norm = 1e400\n", "c.toml:2: ", ["`clip_norm = 1e400` has", "1.8e308"]),
            ("[\0t\0]\0", "c.toml:1: ", ["as UTF-16; save it", "`iconv -f utf-16le -t utf-8`"]),
            ("[\0\0\0t\0\0\0", "c.toml:1: ", ["as UTF-32; save it", "iconv -f utf-32le -t"]),
            ("a = 1\n\0", "c.toml:2: ", ["it is damaged, or", "UTF-16"]),
        ] {
            let error = message(text);
            assert!(error.starts_with(place), "{error}");
            assert!(words.iter().all(|words| error.contains(words)), "{text}: {error}");
            assert!(!error.contains("i128") && error.len() < 300, "{error}");
        }
        let long = format!("[train]\nclip_norm = 1e400 # {}\n", "é".repeat(10_000));
        assert!(message(&long).chars().count() < 300);
    }
}
