//! The files of a checkpoint: their names, their manifest and their hashes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path};

use serde::de::Error;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::{CheckpointError, fault};

/// The format this code writes; it reads no other.
const VERSION: u32 = 4;

/// The largest file of a checkpoint, in bytes: it is read whole, so bounded before allocating.
const MAX_FILE_BYTES: u64 = 16 << 30;

/// The same of a JSON file, which takes several times as much when it is parsed.
const MAX_JSON_BYTES: u64 = 1 << 30;

/// The model after the last update.
pub(super) const MODEL: &str = "model.bpk";
/// The average of the parameters, if one is kept.
pub(super) const AVERAGE: &str = "average.bpk";
/// The slow weights of a lookahead, if there is one.
pub(super) const SLOW: &str = "slow.bpk";
/// The served model, if it is neither of the two.
pub(super) const SERVED: &str = "served.bpk";
/// The served weights, for other tools.
pub(super) const EXPORT: &str = "model.safetensors";
pub(super) const OPTIMIZER: &str = "optimizer.bpk";
pub(super) const STATE: &str = "state.json";
pub(super) const MANIFEST: &str = "manifest.json";

/// The content of a complete checkpoint.
#[derive(Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    files: Vec<ManifestEntry>,
}

#[derive(Serialize, Deserialize)]
struct ManifestEntry {
    name: String,
    sha256: String,
}

impl Manifest {
    pub(super) fn new() -> Self {
        Self { version: VERSION, files: Vec::new() }
    }

    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) {
        self.files.push(ManifestEntry { name: name.to_owned(), sha256: sha256(bytes) });
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|entry| entry.name.as_str())
    }

    pub(super) fn holds(&self, name: &str) -> bool {
        self.files.iter().any(|entry| entry.name == name)
    }

    /// Reads the manifest of a checkpoint.
    pub(super) fn read(folder: &Path) -> Result<Self, CheckpointError> {
        let path = folder.join(MANIFEST);
        if !path.is_file() {
            return Err(CheckpointError::NoManifest { path });
        }
        let bytes = read_bounded(&path)?;
        let manifest: Self = serde_json::from_slice(&bytes)
            .map_err(|cause| CheckpointError::Json { path: path.clone(), cause })?;
        if manifest.version != VERSION {
            let found = manifest.version;
            return Err(CheckpointError::Version { path, found, expected: VERSION });
        }
        // A name that leads elsewhere would have any file read.
        if let Some(name) = manifest.names().find(|name| !is_plain(name)) {
            let cause = serde_json::Error::custom(format!("`{name}` is no file of its folder"));
            return Err(CheckpointError::Json { path, cause });
        }
        Ok(manifest)
    }

    /// Reads a file and checks its hash.
    pub(super) fn read_file(&self, folder: &Path, name: &str) -> Result<Vec<u8>, CheckpointError> {
        let path = folder.join(name);
        let expected = self
            .files
            .iter()
            .find(|entry| entry.name == name)
            .map_or_else(|| "absent".to_owned(), |entry| entry.sha256.clone());
        let bytes = read_bounded(&path)?;
        let found = sha256(&bytes);
        if found == expected {
            Ok(bytes)
        } else {
            Err(CheckpointError::Damaged { path, found, expected })
        }
    }
}

/// Writes a file and flushes it to the disk.
pub(super) fn write_flushed(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let mut file = File::create(path).map_err(|source| fault("create", path, source))?;
    file.write_all(bytes).map_err(|source| fault("write", path, source))?;
    file.sync_all().map_err(|source| fault("flush", path, source))
}

/// Flushes a folder's entries to the disk; systems that cannot open folders do this themselves.
pub(super) fn flush_names(folder: &Path) -> Result<(), CheckpointError> {
    if cfg!(unix) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| fault("flush", folder, source))?;
    }
    Ok(())
}

/// Whether a name is that of a file in the folder itself.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}

/// Reads a file within the limit of its kind; a pipe or a device is none, and has no end.
fn read_bounded(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let failed = |cause| fault("read", path, cause);
    let found = fs::metadata(path).map_err(failed)?;
    if !found.is_file() {
        return Err(failed(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )));
    }
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    let limit = if is_json { MAX_JSON_BYTES } else { MAX_FILE_BYTES };
    let too_large = |bytes| {
        let path = path.to_owned();
        CheckpointError::TooLarge { path, bytes, limit }
    };
    if found.len() > limit {
        return Err(too_large(found.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or(0));
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > limit { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
