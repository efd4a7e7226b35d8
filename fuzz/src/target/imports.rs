//! Networks in eight bits, and tensors of safetensors files.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};
use updraft_quant::QuantizedModel;

/// Any bytes as a quantized model, as they are and as a header with a hash that fits it.
pub(super) fn quantized_model(bytes: &[u8]) {
    read(bytes);
    if let Ok(header) = std::str::from_utf8(bytes) {
        let hash = Sha256::digest(header);
        let hash = TensorView::new(Dtype::U8, vec![32], &hash).expect("32 bytes");
        let metadata = HashMap::from([("updraft-quant".to_owned(), header.to_owned())]);
        let sealed = safetensors::serialize([("sha256", hash)], Some(metadata));
        read(&sealed.expect("a whole tensor"));
    }
}

/// What is read is written to be read again.
fn read(bytes: &[u8]) {
    if let Ok(model) = QuantizedModel::try_from_bytes(bytes) {
        let written = model.to_bytes();
        let again = QuantizedModel::try_from_bytes(&written).expect("it was written");
        assert_eq!(again.to_bytes(), written);
    }
}

pub(super) fn quantized_model_seeds() -> Vec<Vec<u8>> {
    let file = safetensors::serialize([("a", view(&[2], &[1.0, 2.0]))], None);
    vec![b"{\"version\":6,\"layers\":[]}".to_vec(), file.expect("a whole tensor")]
}

/// Numbers in f32 as a tensor of a file.
#[derive(Clone)]
pub(super) struct Floats {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

pub(super) fn view(shape: &[usize], numbers: &[f32]) -> Floats {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Floats { shape: shape.to_vec(), bytes }
}

impl safetensors::View for Floats {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        (&self.bytes).into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}
