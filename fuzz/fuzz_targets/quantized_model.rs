//! Any bytes as a quantized model, as they are and with a hash that fits them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use updraft_quant::QuantizedModel;

/// What comes before the layers: magic and version, then length and hash.
const LENGTH: usize = 8 + 4;
const HASH: usize = LENGTH + 8;
const LAYERS: usize = HASH + 32;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    if bytes.len() >= LAYERS {
        let mut sealed = bytes.to_vec();
        let layers = (bytes.len() - LAYERS) as u64;
        sealed[LENGTH..HASH].copy_from_slice(&layers.to_le_bytes());
        sealed[HASH..LAYERS].copy_from_slice(&Sha256::digest(&bytes[LAYERS..]));
        read(&sealed);
    }
});

/// What is read is written the same.
fn read(bytes: &[u8]) {
    if let Ok(model) = QuantizedModel::try_from_bytes(bytes) {
        assert_eq!(model.to_bytes(), bytes);
    }
}
