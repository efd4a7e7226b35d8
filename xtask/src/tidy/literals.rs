//! The string literals of a Rust source, without those of its tests.

/// The text of each literal with the line that it begins on.
///
/// An escape counts as a space, and so does a line break with the indentation after it.
pub(super) fn literals(source: &str) -> Vec<(usize, String)> {
    let before_tests = source.find("\n#[cfg(test)]\nmod tests {").unwrap_or(source.len());
    let mut reader = Reader { rest: &source[..before_tests], line: 1, previous: ' ' };
    let mut found = Vec::new();
    loop {
        let (rest, line) = (reader.rest, reader.line);
        let is_word = reader.previous.is_alphanumeric() || reader.previous == '_';
        if rest.is_empty() {
            return found;
        } else if rest.starts_with("//") {
            reader.take(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            reader.take(rest.find("*/").map_or(rest.len(), |end| end + 2));
        } else if let Some(opening) = raw(rest).filter(|_| !is_word) {
            let text = &rest[opening.len()..];
            let closing = format!("\"{}", "#".repeat(opening.matches('#').count()));
            let end = text.find(&closing).unwrap_or(text.len());
            found.push((line, text[..end].to_owned()));
            reader.take((opening.len() + end + closing.len()).min(rest.len()));
        } else if let Some(text) = rest.strip_prefix('"') {
            let end = closing_quote(text);
            found.push((line, without_escapes(&text[..end])));
            reader.take((end + 2).min(rest.len()));
        } else {
            reader.take(character(rest));
        }
    }
}

/// What has not been read.
struct Reader<'a> {
    rest: &'a str,
    line: usize,
    /// The last character that was read.
    previous: char,
}

impl Reader<'_> {
    fn take(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.previous = taken.chars().next_back().unwrap_or(self.previous);
        self.rest = rest;
    }
}

/// The opening of a raw literal that begins here, such as `r"` or `br##"`.
fn raw(text: &str) -> Option<&str> {
    let after = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let after = after.trim_start_matches('#').strip_prefix('"')?;
    Some(&text[..text.len() - after.len()])
}

/// The place of the first quote that is not escaped.
fn closing_quote(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.find(|letter| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    });
    end.unwrap_or(text.len())
}

/// The bytes of a character literal, which may be a quote, or of the one character that is here.
fn character(text: &str) -> usize {
    let mut letters = text.char_indices();
    let first = letters.next().map_or(0, |(_, letter)| letter.len_utf8());
    if !text.starts_with('\'') {
        return first;
    }
    let is_escape = text[first..].starts_with('\\');
    // After an escape the quote itself may follow; otherwise `'a` without a quote is a lifetime.
    let closing = letters.skip(if is_escape { 2 } else { 1 });
    let mut closing = closing.skip_while(|(_, letter)| is_escape && *letter != '\'');
    closing.next().filter(|(_, letter)| *letter == '\'').map_or(first, |(at, _)| at + 1)
}

fn without_escapes(text: &str) -> String {
    let mut without = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                without.push(' ');
                if letters.next() == Some('\n') {
                    let rest = letters.as_str().trim_start();
                    letters = rest.chars();
                }
            }
            letter => without.push(letter),
        }
    }
    // A literal that ends a line with ` \` has two spaces between the words.
    without.replace("  ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_found_with_their_lines() {
        let source = concat!(
            "// \"no\" '\"'\nlet a = \"one\"; /* \"no\n\" */\n",
            "let b = ['\"', '\\'', '\\\\', 'x', '\\u{22}'];\nfn f<'a>(a: &'a str) {}\n",
            "g(\"two \\\n    words\\n\\\"q\\\"\", r\"a\\\", r#\"b \"c\" d\"#, br#\"e\"f\"#);\n",
            "bar\"g\";\n#[cfg(test)]\nmod tests {\n    \"test\"\n}\n",
        );
        let expected =
            [(2, "one"), (6, "two words q "), (7, "a\\"), (7, "b \"c\" d"), (7, "e\"f"), (8, "g")];
        assert_eq!(literals(source), expected.map(|(line, text)| (line, text.to_owned())));
    }
}
