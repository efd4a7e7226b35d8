//! Hashes of the parts of a checkpoint, for a bitwise comparison of two checkpoints.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::CheckpointError;
use super::files::{AVERAGE, EXPORT, MODEL, Manifest, OPTIMIZER, SERVED, SLOW, STATE, sha256};
use super::optimizer::{scalars, stored};

/// Returns the SHA-256 of a checkpoint's exported weights, which are those that are served.
///
/// # Errors
/// [`CheckpointError`] for a file that is missing or damaged.
pub fn export_hash(path: &Path) -> Result<String, CheckpointError> {
    Ok(sha256(&Manifest::read(path)?.read_file(path, EXPORT)?))
}

/// Returns every part of a checkpoint by name, with its SHA-256 or, for a number, its text: the
/// tensors of its models, the tensors and numbers of its optimizer, its exported weights and its
/// state.
///
/// Parts of the optimizer are named by the paths of their parameters, because the ids in burn's
/// files are random and differ between equal runs. Runs that resume from checkpoints with equal
/// parts compute equal numbers.
///
/// # Errors
/// [`CheckpointError`] for a file that is missing or damaged.
pub fn contents(path: &Path) -> Result<BTreeMap<String, String>, CheckpointError> {
    let manifest = Manifest::read(path)?;
    let mut parts = BTreeMap::new();
    for name in [STATE, EXPORT] {
        parts.insert(name.to_owned(), sha256(&manifest.read_file(path, name)?));
    }
    let mut owners = BTreeMap::new();
    for file in [MODEL, AVERAGE, SLOW, SERVED] {
        if !manifest.holds(file) {
            continue;
        }
        let tensors = stored(manifest.read_file(path, file)?).map_err(|e| record(path, file, e))?;
        for (name, tensor) in tensors {
            parts.insert(format!("{file} {name}"), tensor.sha256());
            if let (MODEL, Some(id)) = (file, tensor.parameter) {
                owners.insert(id, name);
            }
        }
    }
    let optimizer = manifest.read_file(path, OPTIMIZER)?;
    let numbers = scalars(&optimizer).map_err(|error| record(path, OPTIMIZER, error))?;
    let tensors = stored(optimizer).map_err(|error| record(path, OPTIMIZER, error))?;
    // A name is the id of a parameter, a dot, and the name of a field.
    let mut paths = BTreeMap::new();
    for (name, tensor) in &tensors {
        let owner = tensor.parameter.and_then(|id| owners.get(&id));
        if let (Some((id, _)), Some(owner)) = (name.split_once('.'), owner) {
            paths.insert(id, owner.as_str());
        }
    }
    let named = |name: &str| match name.split_once('.') {
        Some((id, field)) => format!("{OPTIMIZER} {} {field}", paths.get(id).unwrap_or(&id)),
        None => format!("{OPTIMIZER} {name}"),
    };
    for (name, tensor) in &tensors {
        parts.insert(named(name), tensor.sha256());
    }
    for (name, number) in numbers {
        parts.insert(named(&name), format!("{number:?}"));
    }
    Ok(parts)
}

fn record(path: &Path, file: &str, cause: burn_pack::Error) -> CheckpointError {
    CheckpointError::Record { path: path.join(file), cause: cause.into() }
}
