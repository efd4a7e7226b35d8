//! Weights that other programs saved, and networks in eight bits.

use std::collections::HashMap;

use burn::tensor::Device;
use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};
use updraft_kan::{Activation, BasisKan, Kan};
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

/// Splines of efficient-kan and pykan, Gaussians of fast-kan.
pub(super) fn splines(bytes: &[u8]) {
    let device = Device::flex();
    let _ = Kan::from_safetensors(bytes, Activation::Silu, &device);
    let _ = BasisKan::from_safetensors(bytes, Activation::Silu, &device);
}

pub(super) fn splines_seeds() -> Vec<Vec<u8>> {
    let grid: Vec<f32> = (-3..9).map(|knot| knot as f32 * 0.4 - 1.0).collect();
    let efficient = [
        ("layers.0.grid", view(&[1, 12], &grid)),
        ("layers.0.base_weight", view(&[2, 1], &[0.1, 0.2])),
        ("layers.0.spline_weight", view(&[2, 1, 8], &[0.5; 16])),
        ("layers.0.spline_scaler", view(&[2, 1], &[1.0, 1.0])),
    ];
    let fast = [
        ("layers.0.rbf.grid", view(&[3], &[-1.0, 0.0, 1.0])),
        ("layers.0.layernorm.weight", view(&[1], &[1.0])),
        ("layers.0.layernorm.bias", view(&[1], &[0.0])),
        ("layers.0.spline_linear.weight", view(&[2, 3], &[0.5; 6])),
        ("layers.0.base_linear.weight", view(&[2, 1], &[0.1, 0.2])),
        ("layers.0.base_linear.bias", view(&[2], &[0.1, 0.2])),
    ];
    let file = |tensors: &[(&str, Floats)]| {
        let tensors = tensors.iter().map(|(name, floats)| (*name, floats.clone()));
        safetensors::serialize(tensors, None).expect("whole tensors")
    };
    vec![file(&efficient), file(&fast)]
}

/// Numbers in f32 as a tensor of a file.
#[derive(Clone)]
struct Floats {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

fn view(shape: &[usize], numbers: &[f32]) -> Floats {
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
