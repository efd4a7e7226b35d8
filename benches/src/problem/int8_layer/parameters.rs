//! The numbers of a layer by formula: `benches/peers/onnx_layers.py` makes the same.

use super::{INPUT, Int8Layer, LayerKind};
use crate::formula;

const WEIGHT_SCALES: [f32; 2] = [1.0 / 128.0, 1.0 / 256.0];
/// Biases in steps of the sums.
const BIASES: f32 = 1000.0;

impl Int8Layer {
    /// The codes of every input.
    pub(super) fn codes(&self) -> Vec<Vec<u8>> {
        let count = self.batch * self.sample().iter().product::<usize>();
        let code = |value: f32| ((value + 1.0) * 127.5).floor() as u8;
        let of = |name: &&str| formula::tensor(name, count, 1.0).into_iter().map(code).collect();
        self.inputs().iter().map(of).collect()
    }

    /// Weights in the order of burn's layer, each channel with one of 127.
    pub(super) fn weight_codes(&self) -> Vec<i8> {
        let [inputs, outputs] = self.channels;
        let area = self.kernel * self.kernel;
        let each = match self.layer {
            LayerKind::Linear => inputs,
            LayerKind::Transposed => inputs * area,
            _ => inputs / self.groups * area,
        };
        let values = formula::tensor("w", outputs * each, 127.0);
        let mut codes: Vec<i8> = values.iter().map(|value| value.floor() as i8).collect();
        let step = if self.layer == LayerKind::Transposed { area } else { each };
        (0..outputs).for_each(|output| codes[output * step] = 127);
        codes
    }

    pub(super) fn weight_scale(output: usize) -> f32 {
        WEIGHT_SCALES[output % 2]
    }

    pub(super) fn bias_codes(&self) -> Vec<i32> {
        let values = formula::tensor("bias", self.channels[1], BIASES);
        values.iter().map(|value| value.floor() as i32).collect()
    }

    /// Weights in real numbers, in the order of their codes.
    pub(super) fn weights(&self) -> Vec<f32> {
        let codes = self.weight_codes();
        let [_, outputs] = self.channels;
        let output = |at: usize| match self.layer {
            LayerKind::Transposed => at / (self.kernel * self.kernel) % outputs,
            _ => at / (codes.len() / outputs),
        };
        let real = |(at, &code): (usize, &i8)| f32::from(code) * Self::weight_scale(output(at));
        codes.iter().enumerate().map(real).collect()
    }

    pub(super) fn bias(&self) -> Vec<f32> {
        let real =
            |(output, code): (usize, i32)| code as f32 * INPUT.0 * Self::weight_scale(output);
        self.bias_codes().into_iter().enumerate().map(real).collect()
    }
}
