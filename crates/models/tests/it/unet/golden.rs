//! U-Nets beside MONAI's `DynUNet` and a plain U-Net in `PyTorch`, with the same parameters.

use burn::tensor::Device;
use updraft_models::{Downsampling, UNetBlock, UNetConfig, UNetNormalization, Upsampling};

use super::formula::{by_formula, input, trained};
use super::{images, volumes};

/// An output of a peer, of filters 4, 6 and 8, one channel in and two out.
pub(super) struct Golden {
    pub(super) axes: usize,
    pub(super) block: UNetBlock,
    pub(super) normalization: UNetNormalization,
    pub(super) downsampling: Downsampling,
    /// With whether there is a bias.
    pub(super) upsampling: (Upsampling, bool),
    pub(super) slope: f64,
    pub(super) parameters: usize,
    /// The values at the flat indices `j n / 8`, of `n`.
    pub(super) values: [f64; 8],
    pub(super) mean: f64,
    pub(super) std: f64,
}

impl Golden {
    fn config(&self) -> UNetConfig {
        UNetConfig::new(1, 2, &[4, 6, 8])
            .with_block(self.block)
            .with_normalization(self.normalization)
            .with_downsampling(self.downsampling)
            .with_upsampling(self.upsampling.0, self.upsampling.1)
            .with_negative_slope(self.slope)
    }

    fn check(&self, name: &str, output: &[f32]) {
        let numbers: Vec<f64> = output.iter().map(|&value| f64::from(value)).collect();
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let variance = numbers.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let values = self.values.iter().enumerate();
        let values = values.map(|(at, &value)| (numbers[at * numbers.len() / 8], value));
        for (got, expected) in values.chain([(mean, self.mean), (variance.sqrt(), self.std)]) {
            // f32 beside f64, over eleven layers of numbers about 1.
            assert!(
                (got - expected).abs() < 2e-5 * (1.0 + expected.abs()),
                "{name}: {got} {expected}"
            );
        }
    }
}

#[test]
fn outputs_and_parameter_counts_are_those_of_monai_and_pytorch() {
    let _alone = updraft_testing::alone();
    let device = Device::flex();
    for (index, golden) in images::GOLDEN.iter().chain(volumes::GOLDEN).enumerate() {
        let config = golden.config();
        let (parameters, output) = if golden.axes == 2 {
            let network = by_formula(config.init_2d(&device));
            (trained(&network), network.forward(input([2, 1, 16, 12], &device)).into_data())
        } else {
            let network = by_formula(config.init_3d(&device));
            (trained(&network), network.forward(input([2, 1, 8, 8, 12], &device)).into_data())
        };
        let name = format!("golden {index}, {} axes", golden.axes);
        assert_eq!(parameters, golden.parameters, "{name}");
        golden.check(&name, &output.iter().collect::<Vec<f32>>());
    }
}
