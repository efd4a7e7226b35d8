//! A network of one pathway, for comparison with the dual-pathway network.

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use serde::{Deserialize, Serialize};
use updraft_conv::{Activation, ConvNormActivation, initialize_parameters};

use crate::classifier::{Classifier, pool};
use crate::config::{Depth, DualPathwayConfig};
use crate::cost::{counted, of_dual, of_single};
use crate::error::NetworkConfigError;
use crate::residual::{Residual, conv_norm};

/// The configuration of a [`SinglePathwayNet`].
///
/// # Example
/// ```
/// use updraft_integration::{DualPathwayConfig, SinglePathwayConfig};
///
/// let dual = DualPathwayConfig::new(10, 16);
/// let twin = SinglePathwayConfig::twin(&dual, [32, 32]);
/// assert!(twin.widths[0] > 16);
/// assert!(twin.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SinglePathwayConfig {
    /// The number of classes.
    pub classes: usize,
    /// The width of each stage; the stem has that of the first.
    pub widths: Vec<usize>,
    /// How many stages and blocks there are.
    pub depth: Depth,
    /// 1 keeps the size of the image, 2 halves it before the first stage.
    pub stem_stride: usize,
    /// The probability of dropping a feature before each layer of the classifier.
    pub dropout: f64,
}

impl SinglePathwayConfig {
    /// The network with as many multiply-adds as a dual-pathway network for images of this height
    /// and width, with its depth, stride and dropout.
    ///
    /// The widths have the ratios of the other network's where that is possible, and the last one
    /// is adjusted to the nearest number of multiply-adds: from 8 channels on, within 2 % for
    /// images of 32 × 32.
    ///
    /// # Panics
    /// If `dual` is not valid.
    #[must_use]
    pub fn twin(dual: &DualPathwayConfig, image: [usize; 2]) -> Self {
        if let Err(error) = dual.validate() {
            panic!("{error}");
        }
        let multiples = dual.depth.stages().iter().map(|(_, multiple)| *multiple);
        let multiples: Vec<usize> = multiples.collect();
        let of_widths = |widths: Vec<usize>| Self {
            classes: dual.classes,
            widths,
            depth: dual.depth,
            stem_stride: dual.stem_stride,
            dropout: dual.dropout,
        };
        let scaled = |base: usize| of_widths(multiples.iter().map(|m| m * base).collect());
        let aim = of_dual(dual, image);
        // One pathway of the same width costs less than two.
        let mut base = dual.channels;
        while of_single(&scaled(base + 1), image) <= aim {
            base += 1;
        }
        let mut best = scaled(base);
        loop {
            let mut wider = best.clone();
            *wider.widths.last_mut().expect("a network has a stage") += 1;
            let missing = |config: &Self| of_single(config, image).abs_diff(aim);
            if missing(&wider) >= missing(&best) {
                return best;
            }
            best = wider;
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value out of its range, by name.
    pub fn validate(&self) -> Result<(), NetworkConfigError> {
        use NetworkConfigError as Error;

        let Self { classes, widths, depth, stem_stride, dropout } = self;
        if *classes < 2 {
            return Err(Error::Classes { classes: *classes });
        }
        let expected = depth.stages().len();
        if widths.len() != expected {
            return Err(Error::Stages { stages: widths.len(), expected });
        }
        // The twin of the widest dual-pathway network is less than twice as wide in every stage.
        for (stage, (&width, (_, multiple))) in widths.iter().zip(depth.stages()).enumerate() {
            let most = 2 * depth.most_channels() * multiple;
            if !(1..=most).contains(&width) {
                return Err(Error::Width { stage, width, most });
            }
        }
        if !(1..=2).contains(stem_stride) {
            return Err(Error::StemStride { stem_stride: *stem_stride });
        }
        if !(0.0..1.0).contains(dropout) {
            return Err(Error::Dropout { dropout: *dropout });
        }
        Ok(())
    }

    /// Makes a network with fresh parameters, drawn as those of [`DualPathwayConfig::init`].
    ///
    /// # Panics
    /// If [`validate`](Self::validate) finds a fault; the message is the error's.
    pub fn init(&self, device: &Device) -> SinglePathwayNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        SinglePathwayNet::new(self, device)
    }
}

/// Classifies images by the stem, the residual blocks and the classifier of a
/// [`DualPathwayNet`](crate::DualPathwayNet), without a second pathway and without integration.
#[derive(Module, Debug)]
pub struct SinglePathwayNet {
    stem: ConvNormActivation,
    stages: Vec<Blocks>,
    classifier: Classifier,
}

/// The residual blocks of one stage.
#[derive(Module, Debug)]
struct Blocks {
    color: Vec<Residual>,
}

impl SinglePathwayNet {
    fn new(config: &SinglePathwayConfig, device: &Device) -> Self {
        let mut input = config.widths[0];
        let stem = conv_norm([3, input], 3, config.stem_stride, Activation::Relu, device);
        let mut stages = Vec::new();
        for (index, ((blocks, _), &output)) in
            config.depth.stages().iter().zip(&config.widths).enumerate()
        {
            let stride = if index == 0 { 1 } else { 2 };
            let first = Residual::new([input, output], stride, device);
            let rest = (1..*blocks).map(|_| Residual::new([output, output], 1, device));
            stages.push(Blocks { color: std::iter::once(first).chain(rest).collect() });
            input = output;
        }
        let classifier = Classifier::new(input, config.classes, config.dropout, device);
        let net = Self { stem, stages, classifier };
        initialize_parameters(&net);
        net
    }

    /// Classifies images.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - returns: `[batch, classes]`, not normalized
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3, or its dtype is not that of the parameters.
    pub fn forward(&self, rgb: Tensor<4>) -> Tensor<2> {
        assert_shape!(rgb, [_, 3, _, _]);
        self.leave((0..self.segments()).fold(rgb, |maps, index| self.segment(index, maps)))
    }

    /// How many segments the network can be cut into: the stem, then each stage.
    pub fn segments(&self) -> usize {
        1 + self.stages.len()
    }

    /// Runs one segment.
    ///
    /// # Panics
    /// If `index` is not below [`segments`](Self::segments), or `maps` is not the result of the
    /// segment before it.
    #[must_use]
    pub fn segment(&self, index: usize, maps: Tensor<4>) -> Tensor<4> {
        let Some(stage) = index.checked_sub(1) else { return self.stem.forward(maps) };
        self.stages[stage].color.iter().fold(maps, |maps, block| block.forward(maps))
    }

    /// Classifies the result of the last segment.
    ///
    /// # Shapes
    /// - returns: `[batch, classes]`, not normalized
    pub fn leave(&self, maps: Tensor<4>) -> Tensor<2> {
        self.classifier.forward(pool(maps))
    }

    /// Multiply-adds of the forward pass of one image of this height and width, counted as those
    /// of a [`DualPathwayNet`](crate::DualPathwayNet).
    pub fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        counted(self, self.stem.conv.stride[0], image)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use updraft_testing::{Numbers, devices};

    use super::*;
    use crate::config::IntegrationPoint;

    #[test]
    fn a_twin_has_the_multiply_adds_of_the_dual_pathway_network() {
        let _alone = updraft_testing::alone();
        let depths = [Depth::Shallow, Depth::Medium, Depth::Deep].map(|depth| (8, depth));
        let shallow = [16, 24, 32, 64].map(|channels| (channels, Depth::Shallow));
        for (channels, depth) in depths.into_iter().chain(shallow) {
            for points in [vec![IntegrationPoint::All], vec![IntegrationPoint::Late], vec![]] {
                for (stem_stride, image) in [(1, [32, 32]), (2, [32, 32]), (1, [48, 30])] {
                    let dual = DualPathwayConfig::new(10, channels)
                        .with_depth(depth)
                        .with_stem_stride(stem_stride)
                        .with_integration_points(points.clone());
                    let twin = SinglePathwayConfig::twin(&dual, image);
                    let device = Device::flex();
                    let aim = dual.init(&device).multiply_adds(image) as f64;
                    let found = twin.init(&device).multiply_adds(image) as f64;
                    let off = found / aim - 1.0;
                    assert!(off.abs() < 0.02, "{channels} {points:?} {twin:?}: {off:+.3}");
                }
            }
        }
    }

    #[test]
    fn the_segments_are_the_forward_pass() {
        for device in devices() {
            let net =
                SinglePathwayConfig::twin(&DualPathwayConfig::new(3, 4), [16, 16]).init(&device);
            let images = Tensor::<4>::random([2, 3, 16, 16], Default::default(), &device);
            let maps =
                (0..net.segments()).fold(images.clone(), |maps, index| net.segment(index, maps));
            let logits = net.forward(images);
            assert_eq!(logits.dims(), [2, 3]);
            assert_eq!(net.leave(maps).numbers(), logits.numbers());
        }
    }

    #[test]
    fn every_value_out_of_range_is_named() {
        let good = SinglePathwayConfig::twin(&DualPathwayConfig::new(3, 4), [16, 16]);
        assert_eq!(good.validate(), Ok(()));
        for (bad, name) in [
            (SinglePathwayConfig { classes: 1, ..good.clone() }, "classes"),
            (SinglePathwayConfig { widths: vec![4], ..good.clone() }, "widths"),
            (SinglePathwayConfig { widths: vec![4, 0], ..good.clone() }, "widths[1]"),
            (SinglePathwayConfig { stem_stride: 3, ..good.clone() }, "stem_stride"),
            (SinglePathwayConfig { dropout: 1.0, ..good.clone() }, "dropout"),
        ] {
            let message = bad.validate().expect_err(name).to_string();
            assert!(message.starts_with(&format!("`{name}` ")), "{message}");
        }
    }
}
