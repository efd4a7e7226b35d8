//! One rank: training on one device.

use crate::{Collective, CollectiveError};

/// The only rank of a run, whose exchanges are copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Alone;

impl Collective for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn broadcast(&mut self, _root: usize, _data: &mut [u8]) -> Result<(), CollectiveError> {
        Ok(())
    }

    fn all_to_all(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        receive.copy_from_slice(send);
        Ok(())
    }

    fn all_gather(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        receive.copy_from_slice(send);
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        Ok(())
    }
}
