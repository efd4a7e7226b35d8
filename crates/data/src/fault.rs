//! The policy for samples that cannot be delivered.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::regular_file::open_regular;

/// The policy of a loader for samples that cannot be delivered.
///
/// A skipped sample leaves its place empty: its batch is smaller by one, and every other sample
/// stays in its batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FaultPolicy {
    /// The epoch ends with the sample's error.
    #[default]
    Raise,
    /// The sample is left out.
    Skip {
        /// The largest number of samples that may be skipped in one epoch; one more ends it with an
        /// error.
        at_most: u64,
    },
    /// The sample is skipped and recorded, one line of JSON per sample (see [`Quarantined`]).
    Quarantine {
        /// The file; lines are appended, once per sample and loader.
        file: PathBuf,
        /// The largest number of samples that may be skipped in one epoch; one more ends it with an
        /// error.
        at_most: u64,
    },
}

impl FaultPolicy {
    /// Its kind in configurations.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Raise => "raise",
            Self::Skip { .. } => "skip",
            Self::Quarantine { .. } => "quarantine",
        }
    }

    pub(crate) const fn at_most(&self) -> u64 {
        match self {
            Self::Raise => 0,
            Self::Skip { at_most } | Self::Quarantine { at_most, .. } => *at_most,
        }
    }
}

/// A skipped sample.
#[derive(Debug)]
pub struct SampleFault {
    /// Its index in the loader's set.
    pub index: usize,
    /// Its file, or how it was generated.
    pub name: String,
    /// The reason.
    pub error: DataError,
}

/// One line of a quarantine file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quarantined {
    /// The epoch in which the sample was skipped.
    pub epoch: u64,
    /// The sample's index in the loader's set.
    pub index: usize,
    /// Its file, or how it was generated.
    pub name: String,
    /// The reason: the text of the error.
    pub cause: String,
}

impl Quarantined {
    /// Reads a quarantine file.
    ///
    /// # Errors
    /// [`DataError::Open`] if it cannot be read, [`DataError::QuarantineLine`] for a line that is
    /// not an entry.
    pub fn read(path: impl AsRef<Path>) -> Result<Vec<Self>, DataError> {
        let path = path.as_ref();
        let open = |cause| DataError::Open { path: path.to_owned(), cause };
        let lines = BufReader::new(open_regular(path).map_err(open)?).lines();
        let parse =
            |(line, text): (usize, std::io::Result<String>)| {
                serde_json::from_str(&text.map_err(open)?).map_err(|cause| {
                    DataError::QuarantineLine { path: path.to_owned(), line: line + 1, cause }
                })
            };
        lines.enumerate().map(parse).collect()
    }
}

/// The open file of a [`FaultPolicy::Quarantine`].
#[derive(Debug)]
pub(crate) struct Quarantine {
    path: PathBuf,
    written: Mutex<(File, HashSet<usize>)>,
}

impl Quarantine {
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|cause| DataError::Open { path: path.to_owned(), cause })?;
        Ok(Self { path: path.to_owned(), written: Mutex::new((file, HashSet::new())) })
    }

    /// Records a sample, unless this loader has done so before.
    pub(crate) fn add(&self, epoch: u64, fault: &SampleFault) -> Result<(), DataError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, indices) = &mut *written;
        if !indices.insert(fault.index) {
            return Ok(());
        }
        let entry = Quarantined {
            epoch,
            index: fault.index,
            name: fault.name.clone(),
            cause: fault.error.to_string(),
        };
        let mut line = serde_json::to_vec(&entry).expect("numbers and strings are always JSON");
        line.push(b'\n');
        // One call, so that two processes do not mix their lines.
        file.write_all(&line).map_err(|cause| DataError::Write { path: self.path.clone(), cause })
    }
}
