//! Words numbered in the order of their first occurrence.

use std::collections::HashMap;
use std::str::Utf8Error;

/// The number of recent words that are found without hashing, a power of two: at first, and at most.
const RECENT: usize = 256;
const MOST_RECENT: usize = 1 << 14;

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
    /// The number of words that are numbered before these.
    before: u32,
}

/// A word of the cache.
#[derive(Debug, Clone, Copy)]
struct Recent {
    first: u64,
    last: u64,
    length: u32,
    number: u32,
}

/// The length of a word with its first and its last eight bytes, zeros after those of a shorter one.
#[derive(Debug, Clone, Copy)]
struct Key {
    first: u64,
    last: u64,
    length: u32,
}

impl Recent {
    /// No word has this length.
    const NONE: Self = Self { first: 0, last: 0, length: u32::MAX, number: u32::MAX };

    const fn new(Key { first, last, length }: Key, number: u32) -> Self {
        Self { first, last, length, number }
    }

    #[inline]
    const fn has(&self, key: Key) -> bool {
        self.first == key.first && self.last == key.last && self.length == key.length
    }
}

impl Default for Words {
    fn default() -> Self {
        let recent = vec![Recent::NONE; RECENT].into();
        Self { numbers: HashMap::new(), words: Vec::new(), recent, before: 0 }
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
                    None => word.iter().rev().fold(0, |first, &byte| first << 8 | u64::from(byte)),
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
    /// None yet, to be numbered after those of `known`, with
    /// [`number_after`](Self::number_after).
    pub(super) fn after(known: &Self) -> Self {
        Self { before: known.words.len() as u32, ..Self::default() }
    }

    /// The code of a word, new or known.
    pub(super) fn number(&mut self, word: &[u8]) -> Result<u32, Utf8Error> {
        if let Some(key) = Key::of(word, 0, word.len()) {
            let found = self.recent[key.slot(self.recent.len())];
            if found.has(key) && (word.len() <= SHORT || self.is(found.number, word)) {
                return Ok(found.number);
            }
        }
        self.number_of_other(word)
    }

    /// The code of a part of a text: that in `known`, or a new one after its words.
    #[inline]
    pub(super) fn number_after(
        &mut self,
        known: &Self,
        text: &[u8],
        (start, end): (usize, usize),
    ) -> Result<u32, Utf8Error> {
        let word = &text[start..end];
        let Some(key) = Key::of(text, start, end) else { return self.number_of_new(known, word) };
        let found = known.recent[key.slot(known.recent.len())];
        if found.has(key) && (word.len() <= SHORT || known.is(found.number, word)) {
            return Ok(found.number);
        }
        let found = self.recent[key.slot(self.recent.len())];
        if found.has(key)
            && (word.len() <= SHORT || known.is(found.number, word) || self.is(found.number, word))
        {
            return Ok(found.number);
        }
        self.number_of_new(known, word)
    }

    /// Whether a number is that of a word.
    fn is(&self, number: u32, word: &[u8]) -> bool {
        let at = number.checked_sub(self.before);
        let own = at.and_then(|at| self.words.get(at as usize));
        own.is_some_and(|own| own.as_bytes() == word)
    }

    /// The code of a word that is not in its slot of both caches.
    #[inline(never)]
    fn number_of_new(&mut self, known: &Self, word: &[u8]) -> Result<u32, Utf8Error> {
        match known.numbers.get(str::from_utf8(word)?) {
            Some(&number) => {
                self.keep(word, number, false);
                Ok(number)
            }
            None => self.number_of_other(word),
        }
    }

    /// The code of a word that is not in its slot of the cache.
    #[inline(never)]
    fn number_of_other(&mut self, word: &[u8]) -> Result<u32, Utf8Error> {
        let text = str::from_utf8(word)?;
        if let Some(&number) = self.numbers.get(text) {
            self.keep(word, number, false);
            return Ok(number);
        }
        let number = u32::try_from(self.words.len() + self.before as usize);
        let number = number.expect("fewer than 2³² rows of text");
        self.numbers.insert(text.into(), number);
        self.words.push(text.into());
        self.keep(word, number, true);
        Ok(number)
    }

    /// Writes a word into its slot of the cache, which grows with the words.
    fn keep(&mut self, word: &[u8], number: u32, is_new: bool) {
        let slots = self.recent.len();
        if is_new && self.words.len() > slots / 2 && slots < MOST_RECENT {
            self.recent = vec![Recent::NONE; 4 * slots].into();
            for (at, word) in self.words.iter().enumerate().rev() {
                // In reverse, so that the word that came first has the slot: it tends to be frequent.
                if let Some(key) = Key::of(word.as_bytes(), 0, word.len()) {
                    self.recent[key.slot(4 * slots)] = Recent::new(key, at as u32 + self.before);
                }
            }
        }
        if let Some(key) = Key::of(word, 0, word.len()) {
            let slot = key.slot(self.recent.len());
            let is_free = self.recent[slot].length == u32::MAX;
            if is_free || !is_new {
                self.recent[slot] = Recent::new(key, number);
            }
        }
    }

    /// The number of each of another's words here, to which those that are missing are added; of
    /// words that were numbered after these, the numbers of these stay.
    pub(super) fn add(&mut self, other: &Self) -> Renumbered {
        let number = |word: &str| self.number(word.as_bytes()).expect("a word is UTF-8");
        let words = other.words.iter().map(AsRef::as_ref);
        Renumbered { before: other.before, numbers: words.map(number).collect() }
    }

    /// The code here of a word of others.
    pub(super) fn renumber(&mut self, others: &Self, code: u32) -> u32 {
        self.number(others.words[code as usize].as_bytes()).expect("a word is UTF-8")
    }

    pub(super) fn words(&self) -> &[Box<str>] {
        &self.words
    }
}

/// The numbers of words among those that they were added to.
pub(super) struct Renumbered {
    before: u32,
    numbers: Vec<u32>,
}

impl Renumbered {
    pub(super) fn number(&self, code: u32) -> u32 {
        code.checked_sub(self.before).map_or(code, |at| self.numbers[at as usize])
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
                    let mut later = Words::after(&words);
                    let place = (1, 1 + length);
                    assert_eq!(later.number_after(&words, &text, place), Ok(expected), "{word:?}");
                    assert!(later.words().is_empty(), "{word:?}");
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
    fn new_words_are_numbered_after_the_known_ones_and_added_to_them() {
        let name = |at: u32| format!("a word of more than sixteen bytes {}", at * 31).into_bytes();
        let mut known = Words::default();
        (0..3000).for_each(|at| assert_eq!(known.number(&name(at)), Ok(at)));
        let mut later = Words::after(&known);
        for _ in 0..2 {
            for at in (0..6000).rev() {
                let (name, new) = (name(at), 8999 - at);
                let found = later.number_after(&known, &name, (0, name.len()));
                assert_eq!(found, Ok(if at < 3000 { at } else { new }));
            }
        }
        // Another part came first, with some of the new words.
        let mut other = Words::after(&known);
        (2990..3010).for_each(|at| {
            assert_eq!(other.number_after(&known, &name(at), (0, name(at).len())), Ok(at));
        });
        assert_eq!(other.words().len(), 10);
        let _ = known.add(&other);
        let numbers = known.add(&later);
        for at in 0..6000 {
            let code = if at < 3000 { at } else { 8999 - at };
            assert_eq!(Ok(numbers.number(code)), known.number(&name(at)));
        }
        assert_eq!(known.words().len(), 6000);
    }

    #[test]
    fn bytes_that_are_no_text_are_no_word() {
        let mut words = Words::default();
        assert!(words.number(b"caf\xE9").is_err());
        assert!(words.words().is_empty());
    }
}
