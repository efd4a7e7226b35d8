//! Whether an optimizer got back every tensor of its state, and whose each of them is.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use burn::optim::ModuleOptimizer;
use burn::store::RecordError;
use burn::tensor::Bytes;
use burn_pack::{Reader, Scalar};

use super::error::CheckpointError;
use super::files::{MODEL, OPTIMIZER};

/// A tensor of a burnpack: the id of its parameter, and what it holds.
struct Stored {
    parameter: Option<u64>,
    shape: Vec<usize>,
    bytes: Bytes,
}

/// Restores an optimizer and compares it with the file, tensor by tensor.
///
/// burn leaves out what it does not find, and a parameter without its moments starts anew: each
/// tensor has to be back, bit for bit, and to belong to a parameter of the `model` file.
pub(super) fn restored(
    path: &Path,
    optimizer: ModuleOptimizer,
    saved: Vec<u8>,
    model: Vec<u8>,
) -> Result<ModuleOptimizer, CheckpointError> {
    let fault = |file: &str, source| CheckpointError::Record { path: path.join(file), source };
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
    let steps = scalars(&saved).map_err(pack)?;
    // burn makes the state on its default device, whatever device the model is on, and panics where
    // that is a GPU that is not there.
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
    // Ids are random: a fault is named by the first path.
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

fn stored(bytes: Vec<u8>) -> Result<BTreeMap<String, Stored>, burn_pack::Error> {
    let tensors = Reader::from_bytes(Bytes::from_bytes_vec(bytes))?.into_tensors()?;
    let parts = tensors.into_iter().map(burn_pack::Tensor::into_parts);
    parts
        .map(|parts| {
            let (name, _, shape, parameter, bytes) = parts?;
            Ok((name, Stored { parameter, shape: shape.to_vec(), bytes }))
        })
        .collect()
}

/// What burn keeps as plain numbers: Adam's count of steps, for one.
fn scalars(bytes: &[u8]) -> Result<BTreeMap<String, Scalar>, burn_pack::Error> {
    Ok(Reader::from_bytes(Bytes::from_bytes_vec(bytes.to_vec()))?.scalars().clone())
}
