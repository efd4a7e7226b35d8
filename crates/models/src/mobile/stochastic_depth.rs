//! Branches that are dropped for some images of a batch.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::Tensor;

/// Drops whole branches at random while training: each image's branch is 0 with a probability, and
/// is divided by the probability of the opposite otherwise.
///
/// # Source
/// Huang et al. 2016, arXiv:1603.09382, section 3, scaled as dropout is.
#[derive(Module, Debug)]
pub(crate) struct StochasticDepth {
    dropout: Dropout,
}

impl StochasticDepth {
    pub(crate) fn new(probability: f64) -> Self {
        Self { dropout: DropoutConfig::new(probability).init() }
    }

    /// Whether branches on this device may be dropped.
    pub(crate) fn is_on(&self, branch: &Tensor<4>) -> bool {
        let Dropout { prob, training } = &self.dropout;
        *prob > 0.0 && training.is_enabled() && branch.device().is_autodiff()
    }

    pub(crate) fn forward(&self, branch: Tensor<4>) -> Tensor<4> {
        let [batch, ..] = branch.dims();
        let kept = self.dropout.forward(Tensor::ones([batch, 1, 1, 1], &branch.device()));
        let dtype = branch.dtype();
        branch * kept.cast(dtype)
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Numbers, alone, autodiff_devices};

    use super::*;

    #[test]
    fn images_are_dropped_whole_and_others_scaled() {
        let _alone = alone();
        for device in autodiff_devices() {
            device.seed(3);
            let depth = StochasticDepth::new(0.25);
            let maps = Tensor::<4>::ones([400, 2, 2, 2], &device);
            assert!(depth.is_on(&maps));
            let kept = depth.forward(maps).numbers();
            let mut count = 0;
            for image in kept.chunks(8) {
                assert!(image.iter().all(|value| *value == image[0]), "{image:?}");
                assert!(image[0] == 0.0 || (image[0] - 4.0 / 3.0).abs() < 1e-6);
                count += usize::from(image[0] != 0.0);
            }
            // 300 expected, with a standard deviation below 9.
            assert!((264..=336).contains(&count), "{count}");
            let plain = Tensor::<4>::ones([4, 2, 2, 2], &device.inner());
            assert!(!depth.is_on(&plain) && !StochasticDepth::new(0.0).is_on(&plain));
        }
    }
}
