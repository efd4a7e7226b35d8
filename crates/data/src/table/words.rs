//! Words numbered in the order of their first occurrence.

use std::collections::HashMap;
use std::str::Utf8Error;

/// The number of recent words that are found without hashing, a power of two: at first, and at most.
const RECENT: usize = 256;
const MOST_RECENT: usize = 1 << 13;

/// Bytes of a part of a word.
const PART: usize = size_of::<u64>();

/// Words of at most so many bytes are known by their first and their last part.
const SHORT: usize = 2 * PART;

/// Numbers words; the same word always gets the same number.
///
/// A table has few words and many fields: a direct-mapped cache is looked up first, and a
/// collision-resistant hash is computed only on a miss.
#[derive(Debug, Clone)]
pub(super) struct Words {
    numbers: HashMap<Box<str>, u32>,
    words: Vec<Box<str>>,
    recent: Box<[Recent]>,
}

/// A word of the cache.
#[derive(Debug, Clone, Copy)]
struct Recent {
    key: Key,
    number: u32,
}

/// The length of a word with its first and its last eight bytes, zeros after those of a shorter one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    first: u64,
    last: u64,
    length: u32,
}

impl Recent {
    /// No word has this length.
    const NONE: Self = Self { key: Key { first: 0, last: 0, length: u32::MAX }, number: u32::MAX };
}

impl Default for Words {
    fn default() -> Self {
        let recent = vec![Recent::NONE; RECENT].into();
        Self { numbers: HashMap::new(), words: Vec::new(), recent }
    }
}

impl Key {
    /// The key of a part of a text; `None` for a word of 4 GiB.
    #[inline]
    fn of(text: &[u8], start: usize, end: usize) -> Option<Self> {
        let word = &text[start..end];
        let length = u32::try_from(word.len()).ok().filter(|length| *length != u32::MAX)?;
        let (first, last) = match (word.first_chunk::<PART>(), word.last_chunk()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => {
                let kept = (1 << (8 * word.len())) - 1;
                let first = match text[start..].first_chunk::<PART>() {
                    Some(first) => u64::from_le_bytes(*first) & kept,
                    None => {
                        word.iter().rev().fold(0, |first, &byte| first << 8 | u64::from(byte))
                    }
                };
                (first, 0)
            }
        };
        Some(Self { first, last, length })
    }

    /// The slot of the word in a cache of a power of two of slots; words may share one.
    #[inline]
    fn slot(self, slots: usize) -> usize {
        // An odd number without a pattern: 2⁶⁴ by the golden ratio.
        const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed = self.first ^ self.last.rotate_left(29) ^ u64::from(self.length);
        ((mixed.wrapping_mul(MIX) >> 32) as usize) & (slots - 1)
    }
}

impl Words {
    /// The code of a word, new or known.
    #[inline]
    pub(super) fn number(&mut self, word: &[u8]) -> Result<u32, Utf8Error> {
        self.number_at(word, 0, word.len())
    }

    /// The same of a part of a text.
    #[inline]
    pub(super) fn number_at(
        &mut self,
        text: &[u8],
        start: usize,
        end: usize,
    ) -> Result<u32, Utf8Error> {
        let word = &text[start..end];
        let Some(key) = Key::of(text, start, end) else { return Ok(self.known_or_new(word)?.0) };
        let Recent { key: found, number } = self.recent[key.slot(self.recent.len())];
        let is_same = key == found
            && (word.len() <= SHORT || self.words[number as usize].as_bytes() == word);
        if is_same { Ok(number) } else { self.number_of_other(key, word) }
    }

    /// The code of a word that is not in its cache slot.
    #[inline(never)]
    fn number_of_other(&mut self, key: Key, word: &[u8]) -> Result<u32, Utf8Error> {
        let (number, is_new) = self.known_or_new(word)?;
        let slots = self.recent.len();
        if is_new && self.words.len() > slots / 2 && slots < MOST_RECENT {
            self.recent = vec![Recent::NONE; 4 * slots].into();
        }
        let slot = key.slot(self.recent.len());
        self.recent[slot] = Recent { key, number };
        Ok(number)
    }

    /// The code of a word, and whether it is new.
    fn known_or_new(&mut self, word: &[u8]) -> Result<(u32, bool), Utf8Error> {
        let word = str::from_utf8(word)?;
        if let Some(&number) = self.numbers.get(word) {
            return Ok((number, false));
        }
        let number = u32::try_from(self.words.len()).expect("fewer than 2³² rows of text");
        self.numbers.insert(word.into(), number);
        self.words.push(word.into());
        Ok((number, true))
    }

    pub(super) fn words(&self) -> &[Box<str>] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_share_a_place_keep_their_numbers() {
        let mut words = Words::default();
        let names: Vec<String> = (0..2000).map(|at| format!("word {at}")).collect();
        for round in 0..3 {
            for (at, name) in names.iter().enumerate() {
                assert_eq!(words.number(name.as_bytes()), Ok(at as u32), "round {round}");
            }
        }
        assert_eq!(
            (words.number(b""), words.number(b"word 7"), words.words().len()),
            (Ok(2000), Ok(7), 2001)
        );
    }

    #[test]
    fn words_differ_where_any_byte_does() {
        let mut words = Words::default();
        let mut numbers = HashMap::new();
        // Twice, so that the second round finds the words in the cache or collides there.
        for _ in 0..2 {
            for length in 0..40_usize {
                let word: Vec<u8> = (1..=length as u8).collect();
                let changed = (0..length).map(|at| {
                    let mut other = word.clone();
                    other[at] ^= 0x40;
                    other
                });
                for word in [word.clone(), vec![0; length]].into_iter().chain(changed) {
                    let next = numbers.len() as u32;
                    let expected = *numbers.entry(word.clone()).or_insert(next);
                    assert_eq!(words.number(&word), Ok(expected), "{word:?}");
                    // Bytes around a word are no part of it.
                    let text = [b"\xFF", &*word, b"\xFF\xFF\xFF"].concat();
                    assert_eq!(words.number_at(&text, 1, 1 + length), Ok(expected), "{word:?}");
                }
            }
        }
        assert_eq!(words.words().len(), numbers.len());
    }

    #[test]
    fn a_column_of_many_words_numbers_them_in_their_order() {
        let mut words = Words::default();
        for round in 0..2 {
            for at in 0..20_000_u32 {
                let word = format!("{}", u64::from(at) * 7_919);
                assert_eq!(words.number(word.as_bytes()), Ok(at), "round {round}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_no_word() {
        let mut words = Words::default();
        assert!(words.number(b"caf\xE9").is_err());
        assert!(words.words().is_empty());
    }
}
