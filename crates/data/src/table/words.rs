//! Words numbered in the order of their first occurrence.

use std::collections::HashMap;
use std::str::Utf8Error;

/// The number of recent words that are found without hashing; a power of two.
const RECENT: usize = 256;

/// Numbers words; the same word always gets the same number.
///
/// A table has few words and many fields: a small direct-mapped cache is looked up first, and a
/// collision-resistant hash is computed only on a miss.
#[derive(Debug, Clone)]
pub(super) struct Words {
    numbers: HashMap<Box<str>, u32>,
    words: Vec<Box<str>>,
    recent: Box<[u32; RECENT]>,
}

impl Default for Words {
    fn default() -> Self {
        let recent = Box::new([u32::MAX; RECENT]);
        Self { numbers: HashMap::new(), words: Vec::new(), recent }
    }
}

impl Words {
    /// The code of a word, new or known.
    #[inline]
    pub(super) fn number(&mut self, word: &[u8]) -> Result<u32, Utf8Error> {
        let slot = slot(word);
        let recent = self.recent[slot];
        if self.words.get(recent as usize).is_some_and(|recent| is_same(recent.as_bytes(), word)) {
            return Ok(recent);
        }
        self.number_of_other(slot, word)
    }

    /// The code of a word that is not in its cache slot.
    #[inline(never)]
    fn number_of_other(&mut self, slot: usize, word: &[u8]) -> Result<u32, Utf8Error> {
        let word = str::from_utf8(word)?;
        let number = match self.numbers.get(word) {
            Some(&number) => number,
            None => {
                let number = u32::try_from(self.words.len()).expect("fewer than 2³² rows of text");
                self.numbers.insert(word.into(), number);
                self.words.push(word.into());
                number
            }
        };
        self.recent[slot] = number;
        Ok(number)
    }

    pub(super) fn words(&self) -> &[Box<str>] {
        &self.words
    }
}

/// Equality of words, inlined because most are short.
#[inline]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    const WIDE: usize = size_of::<u64>();
    if a.len() != b.len() {
        return false;
    }
    match (a.first_chunk::<WIDE>(), b.first_chunk::<WIDE>(), a.last_chunk(), b.last_chunk::<WIDE>())
    {
        // Two halves that may overlap.
        (Some(a_first), Some(b_first), Some(a_last), Some(b_last)) if a.len() <= 2 * WIDE => {
            a_first == b_first && a_last == b_last
        }
        (None, ..) => a.iter().zip(b).all(|(a, b)| a == b),
        _ => a == b,
    }
}

/// The cache slot of a word, from its length, its ends and its middle; words may share one.
fn slot(word: &[u8]) -> usize {
    let byte = |at: usize| word.get(at).map_or(0, |&byte| usize::from(byte));
    let last = word.len().wrapping_sub(1);
    let mixed = word.len()
        + 3 * byte(0)
        + 7 * byte(word.len() / 2)
        + 31 * byte(last)
        + 101 * byte(last.wrapping_sub(1));
    mixed % RECENT
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
    fn words_are_the_same_where_all_their_bytes_are() {
        for length in 0..40 {
            let word: Vec<u8> = (0..length).collect();
            assert!(is_same(&word, &word.clone()));
            assert!(!is_same(&word, &(0..=length).collect::<Vec<u8>>()));
            for at in 0..word.len() {
                let mut other = word.clone();
                other[at] ^= 1;
                assert!(!is_same(&word, &other), "{length} bytes, {at}");
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
