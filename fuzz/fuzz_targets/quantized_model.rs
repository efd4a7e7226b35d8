//! Any bytes as a quantized model, as they are and as a header with a hash that fits it.
#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};
use updraft_quant::QuantizedModel;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    if let Ok(header) = std::str::from_utf8(bytes) {
        let hash = Sha256::digest(header);
        let hash = TensorView::new(Dtype::U8, vec![32], &hash).expect("32 bytes");
        let metadata = HashMap::from([("updraft-quant".to_owned(), header.to_owned())]);
        let sealed = safetensors::serialize([("sha256", hash)], Some(metadata));
        read(&sealed.expect("a whole tensor"));
    }
});

/// What is read is written to be read again.
fn read(bytes: &[u8]) {
    if let Ok(model) = QuantizedModel::try_from_bytes(bytes) {
        let written = model.to_bytes();
        let again = QuantizedModel::try_from_bytes(&written).expect("it was written");
        assert_eq!(again.to_bytes(), written);
    }
}
