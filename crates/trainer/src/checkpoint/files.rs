//! The files of a checkpoint: their names, their manifest and their hashes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::{CheckpointError, fault};

/// The format this code writes; it reads no other.
const VERSION: u32 = 4;

/// The largest file of a checkpoint, in bytes: it is read whole, so bounded before allocating.
const MAX_FILE_BYTES: u64 = 16 << 30;

/// The model after the last update.
pub(super) const MODEL: &str = "model.bpk";
/// The average of the parameters, if one is kept.
pub(super) const AVERAGE: &str = "average.bpk";
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

fn read_bounded(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let bytes = fs::metadata(path).map_err(|source| fault("read", path, source))?.len();
    if bytes > MAX_FILE_BYTES {
        let path = path.to_owned();
        return Err(CheckpointError::TooLarge { path, bytes, limit: MAX_FILE_BYTES });
    }
    fs::read(path).map_err(|source| fault("read", path, source))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
