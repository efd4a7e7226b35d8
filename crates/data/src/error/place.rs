//! The name of a sample in a message.

use std::fmt::{self, Display, Formatter};

/// A sample, as named in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, the archive with its entry, or the caller's name of the bytes.
    pub name: String,
    /// The sample's index in its source; `None` for bytes that belong to no source.
    pub index: Option<usize>,
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name)?;
        self.index.map_or(Ok(()), |index| write!(f, " (sample {index})"))
    }
}
