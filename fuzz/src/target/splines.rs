//! Weights of splines that other programs saved.

use burn::tensor::Device;
use updraft_kan::{Activation, BasisKan, Kan};

use super::tensors::{Floats, view};

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
