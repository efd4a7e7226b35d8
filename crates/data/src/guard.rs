//! Panics of user code as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{DataError, Place};

/// Runs code that reads one sample; if it panics, the error names the sample.
///
/// The sample's buffers are overwritten before they are used again, so data that a panic left
/// incomplete is never used.
pub(crate) fn guarded<T>(
    place: impl Fn() -> Place,
    read: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        Err(DataError::Panicked { place: place(), message: message(&*panic) })
    })
}

/// The text of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is no text".to_owned())
}
