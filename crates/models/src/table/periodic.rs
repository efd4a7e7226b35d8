//! Numbers as sines and cosines of learned frequencies.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use updraft_transformer::PeriodicEmbedding;

/// Each number `x` as `relu([sin 2πcx, cos 2πcx] W + b)`, with separate frequencies `c` per number,
/// and one `W` and `b` for all numbers.
///
/// # Source
/// Gorishniy, Rubachev and Babenko 2022, arXiv:2203.05556, section 3.3, with the linear layer
/// shared between features ("PLR lite" of the authors' code).
#[derive(Module, Debug)]
pub(crate) struct Periodic {
    /// `[numbers, frequencies]`
    frequencies: Param<Tensor<2>>,
    linear: Linear,
}

impl Periodic {
    /// `frequencies` for each number, from a normal distribution of standard deviation `scale`, and
    /// `size` outputs for each.
    pub(crate) fn new(
        numbers: usize,
        frequencies: usize,
        scale: f64,
        size: usize,
        device: &Device,
    ) -> Self {
        let normal = Initializer::Normal { mean: 0.0, std: scale };
        Self {
            frequencies: normal.init([numbers, frequencies], device),
            linear: LinearConfig::new(2 * frequencies, size).init(device),
        }
    }

    /// The parameters.
    pub(crate) fn embedding(&self) -> PeriodicEmbedding {
        let bias = self.linear.bias.as_ref().expect("the layer is made with a bias");
        PeriodicEmbedding {
            frequencies: self.frequencies.val(),
            weight: self.linear.weight.val(),
            bias: bias.val(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use burn::tensor::Int;
    use updraft_testing::{assert_close, devices, tolerance};
    use updraft_transformer::row_features;

    use super::*;

    #[test]
    fn waves_are_those_of_the_formula() {
        for device in devices() {
            let periodic = Periodic::new(2, 3, 0.3, 4, &device);
            let x = [[0.3_f32, -1.2], [2.0, 0.1]];
            let of = |tensor: Tensor<2>| -> Vec<f64> { tensor.into_data().iter().collect() };
            let (c, w) = (of(periodic.frequencies.val()), of(periodic.linear.weight.val()));
            let bias = periodic.linear.bias.as_ref().expect("a bias").val();
            let b: Vec<f64> = bias.into_data().iter().collect();
            let mut expected = Vec::new();
            for row in x {
                for (number, x) in row.into_iter().enumerate() {
                    let angle = |k: usize| TAU * c[3 * number + k] * f64::from(x);
                    let waves =
                        (0..3).map(|k| angle(k).sin()).chain((0..3).map(|k| angle(k).cos()));
                    let waves: Vec<f64> = waves.collect();
                    expected.extend((0..4).map(|out| {
                        let sum: f64 = waves.iter().zip(0..).map(|(v, i)| v * w[4 * i + out]).sum();
                        (sum + b[out]).max(0.0)
                    }));
                }
            }
            let classes = Tensor::<2, Int>::zeros([2, 0], &device);
            let numbers = Tensor::from_floats(x, &device);
            let found = row_features(classes, numbers, vec![], Some(periodic.embedding()));
            assert_close(&found, expected.as_slice(), tolerance::F32);
        }
    }
}
