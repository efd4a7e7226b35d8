//! The list of all operations: one line each.

use std::sync::Arc;

use super::activation::Activation;
use super::add::Add;
use super::concatenate::Concatenate;
use super::convolution::Convolution;
use super::definition::{Operation, Registered};
use super::depth_to_space::DepthToSpace;
use super::extend::Extend;
use super::linear::Linear;
use super::matrix_product::MatrixProduct;
use super::multiply::Multiply;
use super::normalize::Normalize;
use super::pad::Pad;
use super::pooling::Pool;
use super::rearrange::Rearrange;
use super::resize::Resize;
use super::shift::Shift;
use super::softmax::Softmax;

/// In the order in which they are tried for burn's recorded operation.
const ALL: &[Entry] = &[
    Entry::of::<Activation>(),
    Entry::of::<Add>(),
    Entry::of::<Concatenate>(),
    Entry::of::<Convolution>(),
    Entry::of::<DepthToSpace>(),
    Entry::of::<Extend>(),
    #[cfg(feature = "burn")]
    Entry::of::<super::in_burn::InBurn>(),
    Entry::of::<MatrixProduct>(),
    Entry::of::<Linear>(),
    Entry::of::<Multiply>(),
    Entry::of::<Normalize>(),
    Entry::of::<Pad>(),
    Entry::of::<Pool>(),
    Entry::of::<Rearrange>(),
    Entry::of::<Resize>(),
    Entry::of::<Shift>(),
    Entry::of::<Softmax>(),
];

/// How an operation is read from a file, and from what burn recorded.
pub(crate) struct Entry {
    kind: &'static str,
    read: fn(serde_json::Value) -> Result<Arc<dyn Operation>, serde_json::Error>,
    #[cfg(feature = "burn")]
    record: fn(
        &mut crate::module::Reader<'_>,
        &burn::backend::ir::OperationIr,
        Option<&str>,
    ) -> super::Recorded,
}

impl Entry {
    const fn of<T: Registered + Operation + 'static>() -> Self {
        Self {
            kind: T::KIND,
            read: |settings| Ok(Arc::new(serde_json::from_value::<T>(settings)?)),
            #[cfg(feature = "burn")]
            record: T::record,
        }
    }
}

/// The operation of a file's layer; `None` if there is no such kind.
pub(crate) fn read(
    kind: &str,
    settings: serde_json::Value,
) -> Option<Result<Arc<dyn Operation>, serde_json::Error>> {
    ALL.iter().find(|entry| entry.kind == kind).map(|entry| (entry.read)(settings))
}

/// The layer that burn recorded, by the first operation that knows it, or a batch norm, which is no
/// operation; `None` for others.
#[cfg(feature = "burn")]
pub(crate) fn record(
    reader: &mut crate::module::Reader<'_>,
    operation: &burn::backend::ir::OperationIr,
    layer: Option<&str>,
) -> super::Recorded {
    for record in ALL.iter().map(|entry| entry.record).chain([super::affine::record as _]) {
        let meaning = record(reader, operation, layer)?;
        if meaning.is_some() {
            return Ok(meaning);
        }
    }
    Ok(None)
}
