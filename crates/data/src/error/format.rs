//! Errors of a binary file that does not match its format.

/// Errors of a binary file that does not match its format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The first bytes are not the format's.
    #[error("expected {expected}, got a file that starts with {}", hex(.start))]
    Magic {
        /// The signature of the format.
        expected: &'static str,
        /// The first bytes, at most eight.
        start: Vec<u8>,
    },
    /// The file is shorter or longer than it should be.
    #[error("expected {expected} bytes, got {got}")]
    Length {
        /// What the header requires.
        expected: u128,
        /// The bytes of the file.
        got: u64,
    },
    /// The file is not a whole number of records.
    #[error("expected a multiple of {record} bytes and at least one, got {got} bytes")]
    Records {
        /// The bytes of a record.
        record: usize,
        /// The bytes of the file.
        got: u64,
    },
    /// A record's label is not a class.
    #[error("record {record} has label {label}; there are {classes} classes")]
    Label {
        /// The record, counted from 0.
        record: usize,
        /// Its label.
        label: usize,
        /// How many classes there are.
        classes: usize,
    },
    /// Two parts that belong together differ in length.
    #[error("there are {samples} samples and {labels} labels")]
    LabelCount {
        /// How many samples.
        samples: usize,
        /// How many labels.
        labels: usize,
    },
    /// A list of class names has the wrong length.
    #[error("expected {expected} class names, one a line, got {got}")]
    ClassNames {
        /// How many classes the format has.
        expected: usize,
        /// How many names the file has.
        got: usize,
    },
    /// The values are of a type that the reader does not support.
    #[error("the values are {got}; expected {expected}")]
    Values {
        /// What can be used.
        expected: &'static str,
        /// What the file has.
        got: &'static str,
    },
}

/// Bytes as a message shows them.
pub(super) fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}
