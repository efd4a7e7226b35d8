//! Words numbered in the order in which they are met.

use std::collections::HashMap;

/// Numbers words; the same word always gets the same number.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    numbers: HashMap<Box<str>, u32>,
    words: Vec<Box<str>>,
    last: u32,
}

impl Words {
    /// The number of a word, new or known.
    pub(super) fn number(&mut self, word: &str) -> u32 {
        // Sorted files repeat a word from row to row.
        if self.words.get(self.last as usize).is_some_and(|last| **last == *word) {
            return self.last;
        }
        self.last = match self.numbers.get(word) {
            Some(&number) => number,
            None => {
                let number = u32::try_from(self.words.len()).expect("fewer than 2³² rows of text");
                self.numbers.insert(word.into(), number);
                self.words.push(word.into());
                number
            }
        };
        self.last
    }

    pub(super) fn words(&self) -> &[Box<str>] {
        &self.words
    }
}
