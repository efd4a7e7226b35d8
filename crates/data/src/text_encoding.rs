//! The likely encoding of a text that is not UTF-8.

use std::fmt;

/// An encoding of texts other than UTF-8; its text is its name.
///
/// # Example
/// ```
/// use updraft_data::TextEncoding;
///
/// let encoding = TextEncoding::likely(b"gr\xfcn").expect("not UTF-8");
/// assert_eq!(encoding.to_string(), "Latin-1");
/// assert_eq!(encoding.conversion(), "iconv -f latin1 -t utf-8");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextEncoding {
    name: &'static str,
    /// Its name for `iconv`.
    of_iconv: &'static str,
}

const fn encoding(name: &'static str, of_iconv: &'static str) -> TextEncoding {
    TextEncoding { name, of_iconv }
}

/// The bytes that windows-1252 does not assign.
///
/// # Source
/// WHATWG Encoding Standard, index windows-1252, whose entries for them are control characters.
const UNASSIGNED: [u8; 5] = [0x81, 0x8D, 0x8F, 0x90, 0x9D];

impl TextEncoding {
    /// That of a text with these first bytes, by its byte-order mark, or without one by the zeros of
    /// its first characters; four bytes are enough.
    #[must_use]
    pub fn of_start(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            // The mark of UTF-32 begins like that of UTF-16.
            [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0xFE, 0xFF, ..] => Some(encoding("UTF-32", "utf-32")),
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Some(encoding("UTF-16", "utf-16")),
            [1..=255, 0, 0, 0, ..] => Some(encoding("UTF-32", "utf-32le")),
            [0, 0, 0, 1..=255, ..] => Some(encoding("UTF-32", "utf-32be")),
            [1..=255, 0, 1..=255, 0, ..] => Some(encoding("UTF-16", "utf-16le")),
            [0, 1..=255, 0, 1..=255, ..] => Some(encoding("UTF-16", "utf-16be")),
            _ => None,
        }
    }

    /// That of bytes that are not UTF-8; `None` for UTF-8, and if no common encoding has all of them.
    #[must_use]
    pub fn likely(bytes: &[u8]) -> Option<Self> {
        if let Some(found) = Self::of_start(bytes) {
            return Some(found);
        }
        // A character of several bytes before the fault says that the text is UTF-8 and damaged.
        let valid = str::from_utf8(bytes).err()?.valid_up_to();
        let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0C);
        if !bytes[..valid].is_ascii() || bytes.iter().any(is_control) {
            return None;
        }
        let mut others = bytes.iter().filter(|byte| !byte.is_ascii());
        if others.clone().any(|byte| UNASSIGNED.contains(byte)) {
            return None;
        }
        Some(match others.any(|byte| *byte < 0xA0) {
            true => encoding("Windows-1252", "windows-1252"),
            false => encoding("Latin-1", "latin1"),
        })
    }

    /// The command that converts a text to UTF-8, without its files.
    #[must_use]
    pub fn conversion(&self) -> String {
        format!("iconv -f {} -t utf-8", self.of_iconv)
    }
}

impl fmt::Display for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What is wrong with a text that is not UTF-8, and how to convert it; `None` for UTF-8.
///
/// Names the encoding of the text, or the first byte that is no UTF-8 with its offset, counted from
/// 0, its line, counted from 1, and the likely encoding.
///
/// # Example
/// ```
/// let fault = updraft_data::utf8_fault(b"a = 1\n# gr\xfcn\n").expect("not UTF-8");
/// let expected = "the byte at offset 10, on line 2, is 0xfc and not UTF-8: the text is likely \
///                 encoded as Latin-1; save it as UTF-8, such as with `iconv -f latin1 -t utf-8`";
/// assert_eq!(fault, expected);
/// assert_eq!(updraft_data::utf8_fault("grün".as_bytes()), None);
/// ```
#[must_use]
pub fn utf8_fault(bytes: &[u8]) -> Option<String> {
    let offset = str::from_utf8(bytes).err()?.valid_up_to();
    let save =
        |found: &TextEncoding| format!("save it as UTF-8, such as with `{}`", found.conversion());
    if let Some(found) = TextEncoding::of_start(bytes) {
        return Some(format!("it is encoded as {found}; {}", save(&found)));
    }
    let line = bytes[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1;
    let place = format!(
        "the byte at offset {offset}, on line {line}, is {:#04x} and not UTF-8",
        bytes[offset]
    );
    Some(match TextEncoding::likely(bytes) {
        Some(found) => format!("{place}: the text is likely encoded as {found}; {}", save(&found)),
        None => format!("{place}: the file is damaged or no text; correct it there"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text in units of some bytes.
    fn wide(text: &str, bytes: usize, is_big: bool) -> Vec<u8> {
        let unit = |c: char| {
            let mut unit = u32::from(c).to_le_bytes()[..bytes].to_vec();
            if is_big {
                unit.reverse();
            }
            unit
        };
        text.chars().flat_map(unit).collect()
    }

    #[test]
    fn wide_encodings_are_known_with_and_without_a_mark() {
        for (bytes, name) in [(2, "UTF-16"), (4, "UTF-32")] {
            for is_big in [false, true] {
                let marked = TextEncoding::of_start(&wide("\u{feff}a = 1\n", bytes, is_big));
                let marked = marked.expect("a mark");
                let conversion = format!("iconv -f {} -t utf-8", name.to_ascii_lowercase());
                assert_eq!(
                    (marked.to_string(), marked.conversion()),
                    (name.to_owned(), conversion)
                );
                let plain = TextEncoding::of_start(&wide("a = 1\n", bytes, is_big)).expect("zeros");
                let order = if is_big { "be" } else { "le" };
                let expected = format!("iconv -f {}{order} -t", name.to_ascii_lowercase());
                assert_eq!(plain.to_string(), name);
                assert!(plain.conversion().starts_with(&expected), "{}", plain.conversion());
            }
        }
        for text in ["", "a", "ab", "a = 1", "\u{feff}a = 1", "größe"] {
            assert_eq!(TextEncoding::of_start(text.as_bytes()), None, "{text}");
            assert_eq!(TextEncoding::likely(text.as_bytes()), None, "{text}");
            assert_eq!(utf8_fault(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_encoding_of_single_bytes_is_that_which_has_all_of_them() {
        let name = |bytes: &[u8]| TextEncoding::likely(bytes).map(|found| found.to_string());
        assert_eq!(name(b"caf\xe9"), Some("Latin-1".to_owned()));
        assert_eq!(name(b"5 \x80, caf\xe9"), Some("Windows-1252".to_owned()));
        // No letter of either, a binary file, and UTF-8 that is damaged after its first letters.
        for none in [&b"a\x81"[..], b"PK\x03\x04\xff", b"gr\xc3\xbcn \xc3"] {
            assert_eq!(name(none), None, "{none:?}");
            let fault = utf8_fault(none).expect("not UTF-8");
            assert!(fault.ends_with("the file is damaged or no text; correct it there"), "{fault}");
        }
    }
}
