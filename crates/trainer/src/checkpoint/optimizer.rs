//! Checks that an optimizer's state was restored completely, and belongs to the right parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use burn::module::{Module, Param};
use burn::optim::ModuleOptimizer;
use burn::store::RecordError;
use burn::tensor::{Bytes, Tensor};
use burn_pack::{Reader, Scalar};

use super::error::CheckpointError;
use super::files::{MODEL, OPTIMIZER, sha256};
use crate::paths::{PathVisitor, visit_paths};

/// A tensor of a burnpack: the id of its parameter, and its content.
pub(super) struct Stored {
    pub(super) parameter: Option<u64>,
    shape: Vec<usize>,
    bytes: Bytes,
}

impl Stored {
    /// The hash of its shape and bytes.
    pub(super) fn sha256(&self) -> String {
        let shape = format!("{:?}", self.shape);
        sha256(&[shape.as_bytes(), &self.bytes].concat())
    }
}

/// Restores an optimizer and compares it with the file, tensor by tensor.
///
/// burn skips missing tensors, and a parameter without its moments silently starts from zero: each
/// tensor has to be restored, bit for bit, and to belong to a parameter of the `model` file.
pub(super) fn restored(
    path: &Path,
    optimizer: ModuleOptimizer,
    saved: Vec<u8>,
    model: Vec<u8>,
) -> Result<ModuleOptimizer, CheckpointError> {
    let fault = |file: &str, cause| CheckpointError::Record { path: path.join(file), cause };
    let record = |source: RecordError| fault(OPTIMIZER, source);
    let pack = |error: burn_pack::Error| record(error.into());
    let state = |tensor, fault| CheckpointError::OptimizerState {
        path: path.join(OPTIMIZER),
        tensor,
        fault,
    };
    let owners: BTreeMap<u64, String> = stored(model)
        .map_err(|error| fault(MODEL, error.into()))?
        .into_iter()
        .filter_map(|(name, tensor)| Some((tensor.parameter?, name)))
        .collect();
    let expected = stored(saved.clone()).map_err(pack)?;
    // Before burn restores it, because burn panics if a tensor belongs to no parameter.
    let is_owned = |tensor: &Stored| tensor.parameter.is_some_and(|id| owners.contains_key(&id));
    if let Some((name, _)) = expected.iter().find(|(_, tensor)| !is_owned(tensor)) {
        return Err(state(name.clone(), "belongs to no parameter of the model"));
    }
    let steps = scalars(&saved).map_err(pack)?;
    // burn creates the state on its default device, not on the model's, and panics if that is a
    // missing GPU.
    let restoring = AssertUnwindSafe(|| optimizer.from_bytes(Bytes::from_bytes_vec(saved)));
    let optimizer = catch_unwind(restoring)
        .map_err(|_| CheckpointError::DefaultDevice { path: path.join(OPTIMIZER) })?
        .map_err(record)?;
    let back = optimizer.into_bytes().map_err(record)?;
    let mut found = stored(back.to_vec()).map_err(pack)?;
    let mut named = Vec::with_capacity(expected.len());
    for (name, tensor) in expected {
        let field = name.split_once('.').map_or(name.as_str(), |(_, field)| field);
        match tensor.parameter.and_then(|id| owners.get(&id)) {
            Some(owner) => named.push((format!("{owner} {field}"), name, tensor)),
            None => return Err(state(name, "belongs to no parameter of the model")),
        }
    }
    // Ids are random, so the error names the first path.
    named.sort_by(|(left, ..), (right, ..)| left.cmp(right));
    for (path, name, tensor) in named {
        match found.remove(&name) {
            None => return Err(state(path, "was not restored")),
            Some(found) if found.shape != tensor.shape || found.bytes != tensor.bytes => {
                return Err(state(path, "came back with other values"));
            }
            Some(_) => {}
        }
    }
    // Adam's count of steps, for one.
    if scalars(&back).map_err(pack)? != steps {
        return Err(state("a count of steps".to_owned(), "came back with other values"));
    }
    Ok(optimizer)
}

/// The paths of trained parameters without state in an optimizer's file.
///
/// These are all of them for an optimizer without state, otherwise those that never had a gradient.
pub(super) fn without_state<M: Module>(
    model: &M,
    optimizer: Vec<u8>,
) -> Result<Vec<String>, RecordError> {
    let tensors = stored(optimizer)?;
    let owners: BTreeSet<u64> = tensors.values().filter_map(|tensor| tensor.parameter).collect();
    let mut missing = Missing { owners, found: Vec::new() };
    visit_paths(model, &mut missing);
    Ok(missing.found)
}

/// Returns an error for a trained parameter without state in the file, unless it had none when it
/// was saved.
pub(super) fn require_state<M: Module>(
    path: &Path,
    model: &M,
    optimizer: Vec<u8>,
    saved_without: &[String],
) -> Result<(), CheckpointError> {
    let path = path.join(OPTIMIZER);
    let missing = match without_state(model, optimizer) {
        Ok(missing) => missing,
        Err(cause) => return Err(CheckpointError::Record { path, cause }),
    };
    match missing.into_iter().find(|name| !saved_without.contains(name)) {
        None => Ok(()),
        Some(tensor) => {
            let fault = "is trained and has no state here";
            Err(CheckpointError::OptimizerState { path, tensor, fault })
        }
    }
}

/// The number of updates that an optimizer has counted, as Adam's do for each parameter: the largest
/// of them, and 0 for an optimizer that does not count. Reads its state from the device.
pub(crate) fn counted_updates(optimizer: &ModuleOptimizer) -> u64 {
    let bytes = optimizer.to_record().into_bytes().expect("a record fits into memory");
    let scalars = scalars(&bytes).expect("a record that was just written");
    let counts = scalars.iter().filter_map(|(name, scalar)| match scalar {
        Scalar::UInt(count) if name.ends_with(".time") => Some(*count),
        _ => None,
    });
    counts.max().unwrap_or_default()
}

struct Missing {
    owners: BTreeSet<u64>,
    found: Vec<String>,
}

impl PathVisitor for Missing {
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>) {
        if param.is_require_grad() && !self.owners.contains(&param.id.val()) {
            self.found.push(path.join("."));
        }
    }
}

/// The tensors of a burnpack by name.
pub(super) fn stored(bytes: Vec<u8>) -> Result<BTreeMap<String, Stored>, burn_pack::Error> {
    let tensors = Reader::from_bytes(Bytes::from_bytes_vec(bytes))?.into_tensors()?;
    let parts = tensors.into_iter().map(burn_pack::Tensor::into_parts);
    parts
        .map(|parts| {
            let (name, _, shape, parameter, bytes) = parts?;
            Ok((name, Stored { parameter, shape: shape.to_vec(), bytes }))
        })
        .collect()
}

/// Values that burn stores as plain numbers: Adam's count of steps, for one.
pub(super) fn scalars(bytes: &[u8]) -> Result<BTreeMap<String, Scalar>, burn_pack::Error> {
    Ok(Reader::from_bytes(Bytes::from_bytes_vec(bytes.to_vec()))?.scalars().clone())
}
