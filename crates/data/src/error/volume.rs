//! Errors of reading, using or predicting a volume.

use std::error::Error;
use std::path::PathBuf;

/// Why a volume cannot be read, used or predicted; the text contains the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The TIFF decoder failed.
    #[error("`{}` page {page}: the TIFF is damaged or of an unsupported kind: {cause}", .path.display())]
    Tiff {
        /// The file.
        path: PathBuf,
        /// The page, counted from 0.
        page: usize,
        /// The decoder's message.
        cause: String,
    },
    /// A field of a file is unsupported, or does not match the file's content.
    #[error("`{}`: {field} is {got}; expected {expected}", .path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The tag, attribute, column or axis.
        field: String,
        /// What it is.
        got: String,
        /// What it must be.
        expected: String,
    },
    /// Volumes that belong together differ.
    #[error("`{name}` has {got}; expected {expected}, as `{other}` has")]
    Differs {
        /// The volume.
        name: String,
        /// What it has.
        got: String,
        /// What the other one has.
        expected: String,
        /// The volume it belongs to.
        other: String,
    },
    /// A mask has a label that is not one of the classes.
    #[error("`{name}` has label {label} at {place:?}; expected labels below {classes}")]
    Label {
        /// The volume.
        name: String,
        /// The label.
        label: usize,
        /// Frame, slice, row and column.
        place: [usize; 4],
        /// How many classes there are.
        classes: usize,
    },
    /// The model failed on some windows.
    #[error("the model failed on windows of `{name}`: {cause}")]
    Model {
        /// The volume.
        name: String,
        /// The model's message.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The caller stopped a prediction.
    #[error("the prediction of `{name}` was stopped after {done} of {total} windows")]
    Stopped {
        /// The volume.
        name: String,
        /// The number of windows that were predicted.
        done: u64,
        /// Windows there are.
        total: u64,
    },
}
