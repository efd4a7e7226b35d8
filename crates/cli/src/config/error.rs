//! Why a configuration cannot become a plan.

use std::io;
use std::path::PathBuf;

/// Why a configuration cannot become a plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the config `{path}`; `configs/` in the repository holds examples")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file inherits from one that led to it, or from too many.
    #[error(
        "`{place}` inherits from `{parent}`, which leads back to it or further than any config \
         should; name a file that inherits from nothing"
    )]
    Inherit { place: PathBuf, parent: PathBuf },
    /// The text is not a configuration.
    #[error("{place}: {message}")]
    Malformed { place: String, message: String },
    /// A key that nothing reads.
    #[error("{place}: unknown key `{key}`; did you mean `{nearest}`? (known here: {known})")]
    UnknownKey { place: String, key: String, nearest: String, known: String },
    /// A key that belongs to another kind than the one beside it.
    #[error(
        "config key `{key}` is not read by the kind {kind}; leave it out or choose another kind"
    )]
    Unread { key: String, kind: String },
    /// A `--set` that is not `key=value`.
    #[error("`--set {given}` is not of the form key=value, such as train.epochs=3")]
    Set { given: String },
    /// A value that cannot be used.
    #[error("config key `{key}` is {value}; expected {expected}")]
    Value { key: &'static str, value: String, expected: String },
    /// A key that the chosen source needs.
    #[error("data source `{source_name}` needs the config key `{key}`")]
    Missing { source_name: String, key: &'static str },
}
