//! The first sample of a set that can be read.

use std::ops::Range;

use crate::error::{DataError, Place};
use crate::guard::guarded;

/// The result of `read` for the first readable sample; unreadable ones before it count as skipped,
/// of which `at_most` are allowed.
pub(super) fn first_readable<T>(
    samples: Range<usize>,
    at_most: u64,
    place: impl Fn(usize) -> Place,
    read: impl Fn(usize) -> Result<T, DataError>,
) -> Result<T, DataError> {
    let mut first = Err(DataError::Empty);
    for (index, skipped) in samples.zip(0..=at_most) {
        first = match guarded(|| place(index), || read(index)) {
            Ok(found) => return Ok(found),
            Err(error) if at_most == 0 => Err(error),
            Err(error) => {
                let (at_most, cause) = (skipped, Box::new(error));
                Err(DataError::TooManyFaults { at_most, cause })
            }
        };
    }
    first
}
