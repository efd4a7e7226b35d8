//! The vocabulary of a column.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The words that a column may have, numbered from 1 in alphabetical order.
///
/// Class 0, [`UNKNOWN`](Self::UNKNOWN), is for every other word: not in the training part, missing,
/// or too rare there for its own class; the rare ones train this class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Vocabulary {
    words: Vec<String>,
    classes: BTreeMap<String, u32>,
}

impl Vocabulary {
    /// The class of every word that the vocabulary does not have.
    pub const UNKNOWN: u32 = 0;

    /// The number of classes, including the unknown one.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.words.len() + 1
    }

    /// The class of a word.
    #[must_use]
    pub fn class(&self, word: &str) -> u32 {
        self.classes.get(word).copied().unwrap_or(Self::UNKNOWN)
    }

    /// The word of a class; `None` for the unknown class, or one that does not exist.
    #[must_use]
    pub fn word(&self, class: u32) -> Option<&str> {
        self.words.get((class as usize).checked_sub(1)?).map(String::as_str)
    }

    /// The words in the order of their classes, from class 1 on.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

impl From<Vec<String>> for Vocabulary {
    /// Sorts the words; each counts once.
    fn from(mut words: Vec<String>) -> Self {
        words.sort_unstable();
        words.dedup();
        let classes = (1..).zip(&words).map(|(class, word)| (word.clone(), class)).collect();
        Self { words, classes }
    }
}

impl From<Vocabulary> for Vec<String> {
    fn from(vocabulary: Vocabulary) -> Self {
        vocabulary.words
    }
}
