//! Buffers of words on a device.
#![expect(unsafe_code, reason = "a launch does not check the length of a buffer")]

use cubecl::prelude::*;
use cubecl::server::{Handle, ServerError};

/// Words of four bytes on a device; a clone is the same buffer.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    handle: Handle,
    len: usize,
}

impl Words {
    /// Copies words, at least one, to the device.
    pub(crate) fn upload(client: &Client, words: &[u32]) -> Self {
        assert!(!words.is_empty(), "a buffer has a word");
        Self { handle: client.create_from_slice(u32::as_bytes(words)), len: words.len() }
    }

    /// Words, at least one, that are not written yet.
    pub(crate) fn empty(client: &Client, len: usize) -> Self {
        assert!(len > 0, "a buffer has a word");
        Self { handle: client.empty(len * size_of::<u32>()), len }
    }

    /// Copies the words from the device, once all that was launched before has run.
    pub(crate) fn read(&self, client: &Client) -> Result<Vec<u32>, ServerError> {
        let bytes = client.read_one(self.handle.clone())?;
        Ok(u32::from_bytes(&bytes).to_vec())
    }

    pub(super) fn arg(&self) -> BufferArg {
        // SAFETY: the buffer was made with so many words.
        unsafe { BufferArg::from_raw_parts(self.handle.clone(), self.len) }
    }
}
