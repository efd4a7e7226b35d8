//! `FoldedDualPathway`: the network in the form for inference.

use burn::module::Module;
use burn::tensor::{DType, Tensor, assert_shape};
use updraft_conv::{Activation, Conv2d};

use super::affine::Affine;
use super::head::FoldedHead;
use super::maps::Maps;
use super::options::FoldOptions;
use super::scales::{ScaledStage, scales_of};
use super::stage::{FoldedStage, StagePlace};
use crate::brightness::Brightness;
use crate::classifier::pool;
use crate::network::DualPathwayNet;
use crate::stage::Stage;
use crate::weights::Place;

/// A trained [`DualPathwayNet`] for inference, with fewer passes over memory.
///
/// Batch norms by their running statistics are part of the convolutions before them, biases,
/// residuals and activations are computed with the convolutions, and the weights of static gates are
/// part of the convolutions around them. Adaptive gates keep their layers and their weighted sums.
/// The logits are those of the network in evaluation mode up to rounding, not to the bit.
///
/// It has no parameters to train and no record: keep the network, and fold it again after loading.
///
/// # Source
/// Jacob et al. 2018, arXiv:1712.05877, equation 14, for the norms.
///
/// # Example
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use updraft_integration::{DualPathwayConfig, FoldOptions};
///
/// let device = Device::flex();
/// let net = DualPathwayConfig::new(10, 4).init(&device);
/// let folded = net.folded_by(FoldOptions { grouped: true, ..FoldOptions::default() });
/// let images = Tensor::<4>::random([2, 3, 16, 16], Distribution::Default, &device);
/// let difference = folded.forward(images.clone()) - net.forward(images);
/// assert!(difference.abs().max().into_scalar::<f32>() < 1e-4);
/// ```
#[derive(Debug, Clone)]
pub struct FoldedDualPathway {
    stems: [Conv2d; 2],
    stages: Vec<FoldedStage>,
    head: FoldedHead,
    brightness: Brightness,
}

impl DualPathwayNet {
    /// The network in the form for inference, by [`FoldOptions::default`].
    pub fn folded(&self) -> FoldedDualPathway {
        self.folded_by(FoldOptions::default())
    }

    /// The same by other options.
    ///
    /// The weights are stored in the dtype of the network's, on its device without autodiff.
    ///
    /// # Accuracy
    /// The weights are computed in f64, apart from the product of the pooled gate's projection with
    /// the classifier's first layer, which the device computes in f32, or in f64 for parameters in
    /// f64.
    pub fn folded_by(&self, options: FoldOptions) -> FoldedDualPathway {
        FoldedDualPathway::new(&self.valid(), options)
    }
}

impl FoldedDualPathway {
    /// Of a network that is not on an autodiff device.
    fn new(net: &DualPathwayNet, options: FoldOptions) -> Self {
        let dtype = net.color_stem.conv.weight.val().dtype();
        let has_weights = options.gate_weights && dtype != DType::F16;
        let weights = |stage: &Stage| {
            let report = stage.gate()?.blend().report(Place::Pooled)?;
            has_weights.then_some([report.color, report.brightness])
        };
        let scaled = net.stages.iter().map(|stage| ScaledStage {
            gate: weights(stage),
            has_identity: stage.color.iter().all(|block| block.shortcut.is_none()),
        });
        let scales = scales_of(&scaled.collect::<Vec<_>>());

        let stems = [&net.color_stem, &net.brightness_stem];
        let stems = [0, 1].map(|at| Affine::of(stems[at]).times(scales[0][at]).into_layer());
        let stages = net.stages.iter().enumerate().map(|(at, stage)| {
            let is_followed = at + 1 < net.stages.len();
            let place = StagePlace { scales: [scales[at], scales[at + 1]], is_followed };
            FoldedStage::new(stage, place, options)
        });
        Self {
            stems,
            stages: stages.collect(),
            head: FoldedHead::new(&net.gate, &net.classifier, scales[net.stages.len()]),
            brightness: net.brightness(),
        }
    }

    /// Classifies images, computing their brightness.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - returns: `[batch, classes]`, not normalized
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3, its dtype is not that of the network, or it is on an
    /// autodiff device.
    #[must_use]
    pub fn forward(&self, rgb: Tensor<4>) -> Tensor<2> {
        let brightness = self.brightness.forward(rgb.clone());
        self.forward_pathways(rgb, brightness)
    }

    /// Classifies images whose brightness is given.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - `brightness`: `[batch, 1, height, width]`
    /// - returns: `[batch, classes]`, not normalized
    ///
    /// # Panics
    /// If the shapes are different, a dtype is not that of the network, or an input is on an autodiff
    /// device.
    #[must_use]
    pub fn forward_pathways(&self, rgb: Tensor<4>, brightness: Tensor<4>) -> Tensor<2> {
        let [batch, _, height, width] = rgb.dims();
        assert_shape!(rgb, [_, 3, _, _]);
        assert_shape!(brightness, [batch, 1, height, width]);
        let is_plain = [&rgb, &brightness].iter().all(|input| !input.device().is_autodiff());
        assert!(is_plain, "a folded network has no gradients; give it the inner tensors");
        let [of_color, of_brightness] = &self.stems;
        let relu = Activation::Relu;
        let color = of_color.forward_activated(rgb, relu);
        let entering = Maps::Apart([color, of_brightness.forward_activated(brightness, relu)]);
        let run = |(maps, stream), stage: &FoldedStage| stage.forward(&maps, stream);
        let (maps, stream) = self.stages.iter().fold((entering, None), run);
        self.head.forward(maps.pooled(), stream.map(pool))
    }
}
