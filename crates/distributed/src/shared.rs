//! A collective that several parts of a program use in turn.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::{Collective, CollectiveError};

/// A collective with several owners in one thread; a clone is the same rank.
#[derive(Clone)]
pub struct Shared(Rc<RefCell<dyn Collective>>);

impl Shared {
    /// Takes an engine, which ends with the last clone.
    pub fn new(collective: impl Collective + 'static) -> Self {
        Self(Rc::new(RefCell::new(collective)))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("rank", &self.rank())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl Collective for Shared {
    fn rank(&self) -> usize {
        self.0.borrow().rank()
    }

    fn size(&self) -> usize {
        self.0.borrow().size()
    }

    fn broadcast(&mut self, root: usize, data: &mut [u8]) -> Result<(), CollectiveError> {
        self.0.borrow_mut().broadcast(root, data)
    }

    fn all_to_all(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        self.0.borrow_mut().all_to_all(send, receive)
    }

    fn all_gather(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        self.0.borrow_mut().all_gather(send, receive)
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.0.borrow_mut().barrier()
    }
}
