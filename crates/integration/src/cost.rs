//! The multiply-adds of a forward pass.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

use crate::config::{DualPathwayConfig, GateKind};
use crate::network::DualPathwayNet;
use crate::single::SinglePathwayConfig;

impl DualPathwayNet {
    /// Multiply-adds of the forward pass of one image of this height and width.
    ///
    /// Counts convolutions and linear layers only; normalizations and activations are left out, as
    /// is usual.
    pub fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        counted(self, self.stem_stride(), image)
    }
}

/// The multiply-adds of a network whose stages are in a field of that name.
pub(crate) fn counted(network: &impl Module, stem_stride: usize, image: [usize; 2]) -> u64 {
    let stem = image.map(|side| side.div_ceil(stem_stride));
    let mut count = Count { path: Vec::new(), stem, sum: 0 };
    network.visit(&mut count);
    count.sum
}

/// The multiply-adds of the dual-pathway network of a configuration, without making it.
pub(crate) fn of_dual(config: &DualPathwayConfig, image: [usize; 2]) -> u64 {
    let integrated = config.integrated_stages();
    let mut sum = (3 + 1) * 9 * config.stem_width() * positions(image, config.stem_stride, 0);
    let (mut input, mut is_streaming) = (config.stem_width(), false);
    for (stage, (blocks, multiple)) in config.depth.stages().iter().enumerate() {
        let output = multiple * config.channels;
        let mut weights = 2 * of_blocks([input, output], *blocks, stage > 0);
        if is_streaming {
            weights += 9 * input * output;
        }
        if integrated.contains(&stage) {
            weights += 3 * output * output;
            sum += of_adaptive(config.gate, output, is_streaming);
            is_streaming = true;
        }
        sum += weights * positions(image, config.stem_stride, stage);
        input = output;
    }
    let pooled = 3 * input * input + of_adaptive(config.gate, input, is_streaming);
    (sum + pooled + of_classifier(input, config.classes)) as u64
}

/// The same of a network of one pathway.
pub(crate) fn of_single(config: &SinglePathwayConfig, image: [usize; 2]) -> u64 {
    let mut input = config.widths[0];
    let mut sum = 3 * 9 * input * positions(image, config.stem_stride, 0);
    let stages = config.depth.stages().iter().zip(&config.widths);
    for (stage, ((blocks, _), &output)) in stages.enumerate() {
        let weights = of_blocks([input, output], *blocks, stage > 0);
        sum += weights * positions(image, config.stem_stride, stage);
        input = output;
    }
    (sum + of_classifier(input, config.classes)) as u64
}

/// The pixels of the maps of a stage.
fn positions(image: [usize; 2], stem_stride: usize, stage: usize) -> usize {
    image.iter().map(|side| side.div_ceil(stem_stride).div_ceil(1 << stage)).product()
}

/// The weights of the residual blocks of one pathway in a stage.
const fn of_blocks([input, output]: [usize; 2], blocks: usize, is_strided: bool) -> usize {
    let shortcut = if is_strided || input != output { input * output } else { 0 };
    9 * input * output + 9 * output * output + shortcut + (blocks - 1) * 18 * output * output
}

/// The weights of the layers that choose the weights of the streams, on pooled features.
const fn of_adaptive(gate: GateKind, channels: usize, is_streaming: bool) -> usize {
    let streams = if is_streaming { 3 } else { 2 };
    match gate {
        GateKind::Static => 0,
        GateKind::Adaptive => streams * channels * channels + channels * streams,
    }
}

/// The weights of the classifier.
const fn of_classifier(features: usize, classes: usize) -> usize {
    features * (features / 2) + (features / 2) * classes
}

struct Count {
    path: Vec<String>,
    /// Height and width after the stems.
    stem: [usize; 2],
    sum: u64,
}

impl Count {
    /// The number of elements that a weight is applied to: those of the maps of its stage; each
    /// stage halves height and width, and all padding keeps the size.
    fn positions(&self) -> usize {
        let stage = match self.path.first().map(String::as_str) {
            Some("stages") => self.path.get(1).and_then(|index| index.parse().ok()).unwrap_or(0),
            _ => 0,
        };
        self.stem.iter().map(|side| side.div_ceil(1 << stage)).product()
    }
}

impl ModuleVisitor for Count {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weights = param.lazy_shape().num_elements();
        let times = match D {
            4 => self.positions(),
            2 => 1,
            _ => 0,
        };
        self.sum += (weights * times) as u64;
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::config::{Depth, IntegrationPoint};

    #[test]
    fn the_cost_of_a_configuration_is_that_of_its_network() {
        let points = [vec![IntegrationPoint::All], vec![IntegrationPoint::Early], vec![]];
        for (points, depth) in points.into_iter().zip([Depth::Shallow, Depth::Medium, Depth::Deep])
        {
            let cases = [
                (1, [32, 32], GateKind::Static),
                (2, [31, 18], GateKind::Static),
                (2, [31, 18], GateKind::Adaptive),
            ];
            for (stride, image, gate) in cases {
                let config = DualPathwayConfig::new(7, 5)
                    .with_depth(depth)
                    .with_stem_stride(stride)
                    .with_gate(gate)
                    .with_integration_points(points.clone());
                let expected = config.init(&Device::flex()).multiply_adds(image);
                assert_eq!(of_dual(&config, image), expected, "{config:?}");
                let twin = SinglePathwayConfig::twin(&config, image);
                let expected = twin.init(&Device::flex()).multiply_adds(image);
                assert_eq!(of_single(&twin, image), expected, "{twin:?}");
            }
        }
    }

    #[test]
    fn a_small_network_costs_what_its_layers_cost_by_hand() {
        let _alone = updraft_testing::alone();
        // Widths 2 and 4, integrated after the second; 16 × 16 behind the stems are 8 × 8.
        let config = DualPathwayConfig::new(3, 2)
            .with_stem_stride(2)
            .with_integration_points(vec![IntegrationPoint::Late]);
        let net = config.init(&Device::flex());
        let stems = (3 + 1) * 2 * 9 * 64;
        let block = |input: usize, output: usize, positions: usize, shortcut: bool| {
            let convolutions = input * output * 9 + output * output * 9;
            (convolutions + if shortcut { input * output } else { 0 }) * positions
        };
        let widths = [2, 4];
        let stages = 2 * block(2, widths[0], 64, false) + 2 * block(widths[0], widths[1], 16, true);
        let last = widths[1];
        let gate = (2 * last * last + last * last) * 16;
        // Mix and projection of the pooled gate, then the classifier's two layers.
        let head = 2 * last * last + last * last + last * (last / 2) + (last / 2) * 3;
        let fixed = stems + stages + gate + head;
        assert_eq!(net.multiply_adds([16, 16]), fixed as u64);

        // Two streams at the stage, three at the pooled gate, whatever the size of the image.
        let adaptive = 2 * last * last + 2 * last + 3 * last * last + 3 * last;
        let net = config.with_gate(GateKind::Adaptive).init(&Device::flex());
        assert_eq!(net.multiply_adds([16, 16]), (fixed + adaptive) as u64);
    }
}
