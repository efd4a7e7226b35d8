//! A source with the labels of another set's classes.

use std::sync::Arc;

use crate::digest::Digest;
use crate::error::DataError;
use crate::image::Image;
use crate::known_contents::KnownContents;
use crate::source::{ImageSource, derived_state};

/// A source whose labels index another class list, such as a test set with the training set's
/// classes.
pub struct Relabeled {
    source: Arc<dyn ImageSource>,
    classes: Vec<String>,
    labels: Vec<usize>,
}

impl Relabeled {
    /// Maps each class of `source` to the class of the same name in `classes`.
    ///
    /// `classes` may have more than `source`.
    ///
    /// # Errors
    /// [`DataError::UnknownClasses`] naming the classes of `source` that `classes` lacks.
    pub fn try_new(source: Arc<dyn ImageSource>, classes: &[String]) -> Result<Self, DataError> {
        let known = |class: &String| classes.iter().position(|other| other == class);
        let labels: Vec<Option<usize>> = source.classes().iter().map(known).collect();
        let unknown: Vec<String> = source
            .classes()
            .iter()
            .zip(&labels)
            .filter(|(_, label)| label.is_none())
            .map(|(class, _)| class.clone())
            .collect();
        if !unknown.is_empty() {
            return Err(DataError::UnknownClasses { unknown, known: classes.to_vec() });
        }
        let labels = labels.into_iter().flatten().collect();
        Ok(Self { source, classes: classes.to_vec(), labels })
    }
}

impl ImageSource for Relabeled {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn label(&self, index: usize) -> usize {
        self.labels[self.source.label(index)]
    }

    fn name(&self, index: usize) -> String {
        self.source.name(index)
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        self.source.read(index)
    }

    fn read_for(&self, index: usize, size: (usize, usize)) -> Result<Image<'_>, DataError> {
        self.source.read_for(index, size)
    }

    fn fingerprint(&self) -> String {
        Digest::new("updraft relabeled").text(&self.source.fingerprint()).texts(&self.classes).hex()
    }

    fn stored_state(&self) -> String {
        derived_state(&self.fingerprint(), &self.source.stored_state())
    }

    fn known_contents(&self) -> Option<KnownContents> {
        self.source.known_contents()
    }
}
