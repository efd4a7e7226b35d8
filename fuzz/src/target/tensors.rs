//! Tensors of safetensors files.

use safetensors::tensor::Dtype;

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
