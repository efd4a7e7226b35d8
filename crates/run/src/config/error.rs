//! Errors of configurations.

use std::io;
use std::path::{Path, PathBuf};

use updraft_data::{FileIdentity, system_message};

use super::shortened::shortened;

/// Errors of configurations; the text names the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(
        "cannot read the config `{path}`: {}; `configs/` in the repository has examples",
        system_message(.cause)
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// A file inherits from one that cannot be read.
    #[error(
        "`{place}` inherits from `{parent}`, which cannot be read: {}",
        system_message(.cause)
    )]
    Parent {
        /// The file that inherits.
        place: PathBuf,
        /// What it inherits from.
        parent: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// A file inherits from itself, directly or through others.
    #[error(
        "`{place}` inherits from `{parent}`, {}; remove `inherit` from one of them",
        circle(.place, .parent)
    )]
    Inherit {
        /// The file that inherits.
        place: PathBuf,
        /// What it inherits from.
        parent: PathBuf,
    },
    /// A configuration consists of too many files.
    #[error(
        "`{place}` inherits from `{parent}`, which would be file {} of this configuration; at most \
         {most} are read: write the values of some of them into one file",
        .most + 1
    )]
    InheritMany {
        /// The file that inherits.
        place: PathBuf,
        /// What it inherits from.
        parent: PathBuf,
        /// The largest number of files.
        most: usize,
    },
    /// The text is not TOML.
    #[error("{place}: {message}")]
    Malformed {
        /// File and line.
        place: String,
        /// What the parser found.
        message: String,
    },
    /// A key that does not exist.
    #[error("{}unknown key `{}`; {advice}", with_colon(.place), shortened(.key))]
    UnknownKey {
        /// File and line, or the option of the command line, or nothing.
        place: String,
        /// The whole key.
        key: String,
        /// The most similar known key, or the list of keys.
        advice: String,
    },
    /// A key that is not used with the given values of other keys.
    #[error(
        "{place}`{}` is not read beside {beside}; leave it out or change that", shortened(.key)
    )]
    Unread {
        /// File and line with a colon, or nothing.
        place: String,
        /// The key.
        key: String,
        /// The key that decides which keys are used, such as `data.source = "folders"`.
        beside: String,
    },
    /// A change of the quickstart after which one of its own keys is not used.
    #[error(
        "{beside} does not go with the quickstart, which gives `{key}`; pass a configuration file"
    )]
    Quickstart {
        /// The key of the quickstart that is not used.
        key: String,
        /// The key that decides this, such as `data.source = "folders"`.
        beside: String,
    },
    /// There is no such profile.
    #[error(
        "there is no profile `{name}`: {reason}; the profiles are `{known}`, or name a .toml file"
    )]
    NoProfile {
        /// The given name or path.
        name: String,
        /// The names of the profiles.
        known: String,
        /// Why it is none.
        reason: String,
    },
    /// A profile has a key that changes what is learned.
    #[error(
        "{place}: `{key}` changes more than speed and memory, and a profile gives only \
         `{allowed}`; a config takes the others from a file with `inherit`"
    )]
    NotForProfile {
        /// The file and the line.
        place: String,
        /// The key.
        key: String,
        /// The keys that a profile may give.
        allowed: String,
    },
    /// A `--set` that is not `key=value`.
    #[error(
        "`{option} {}` is not of the form key=value, such as train.epochs=3", shortened(.given)
    )]
    Set {
        /// The option that gave it, `--set` or another.
        option: &'static str,
        /// The given value.
        given: String,
    },
    /// A `--set key=` for a key that is not given.
    #[error(
        "`{option} {}` removes `{}`, which the config does not give; leave that out, or see what \
         it gives with `explain`",
        shortened(.given),
        shortened(.key)
    )]
    NothingToRemove {
        /// The option that gave it, `--set` or another.
        option: &'static str,
        /// The given text.
        given: String,
        /// The key.
        key: String,
    },
    /// A value that cannot be used.
    #[error("{place}`{}` is {}; it must be {expected}", shortened(.key), shortened(.value))]
    Value {
        /// File and line with a colon, or nothing.
        place: String,
        /// The key.
        key: String,
        /// The given value.
        value: String,
        /// The allowed values.
        expected: String,
    },
    /// A key that is required by another.
    #[error("`{key}` is missing; {because} needs it")]
    Missing {
        /// The key.
        key: &'static str,
        /// The key that requires it, such as `data.source = "archives"`.
        because: String,
    },
}

/// A place with a colon; the length of a setting of the command line has no limit.
pub(super) fn with_colon(place: &str) -> String {
    match place {
        "" => String::new(),
        option if option.starts_with("--") => format!("{}: ", shortened(option)),
        file => format!("{file}: "),
    }
}

/// How a file inherits from the one that names it.
fn circle(place: &Path, parent: &Path) -> &'static str {
    match FileIdentity::of(place) == FileIdentity::of(parent) {
        true => "which is the file itself",
        false => "which inherits from it, directly or through other files",
    }
}

impl ConfigError {
    /// The same error for a setting that another option than `--set` gave: it names that option.
    #[must_use]
    pub fn set_by(mut self, option: &'static str, settings: &[String]) -> Self {
        match &mut self {
            Self::Set { option: named, given }
            | Self::NothingToRemove { option: named, given, .. }
                if settings.contains(given) =>
            {
                *named = option;
            }
            Self::UnknownKey { place, .. } => {
                if let Some(given) = place.strip_prefix("--set ")
                    && settings.iter().any(|set| set == given)
                {
                    *place = format!("{option} {given}");
                }
            }
            _ => {}
        }
        self
    }

    /// The same error, prefixed with the option that gave the key if it is about that key; a task
    /// without the key has no such option.
    #[must_use]
    pub fn caused_by(mut self, option: &str, of_key: &str) -> Self {
        if let Self::Value { place, key, .. } | Self::Unread { place, key, .. } = &mut self
            && key == of_key
        {
            *place = format!("{option}: ");
        }
        if let Self::UnknownKey { place, key, advice } = &mut self
            && key == of_key
        {
            *place = option.to_owned();
            "the task has no such key; leave the option out".clone_into(advice);
        }
        self
    }
}
