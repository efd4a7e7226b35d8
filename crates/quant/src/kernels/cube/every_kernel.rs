//! Every kernel, launched for layers of several kinds: the list for programs that compile kernels
//! without a card.

use cubecl::prelude::Client;
use updraft_conv::slices::{ConvGeometry, ConvShape};

use super::{
    CubeBlend, CubeConvolution, CubeCopies, CubeDepthwise, CubeMaximum, CubeMean, CubePairs,
    CubeTable, DeviceKernel, Places, Words,
};
use crate::kernels::{Pooling, QuantizedResize, Resizing};
use crate::scheme::{ActivationScheme, OutputScheme};
use crate::weights::QuantizedWeights;

/// The sizes of every layer; kernels are compiled for the kind of a layer, not for these.
const SAMPLES: usize = 2;
const CHANNELS: usize = 8;
const SIDES: [usize; 2] = [8, 8];
const PIXELS: usize = SIDES[0] * SIDES[1];

/// Words of the largest buffer of these layers, and more.
const WORDS: usize = 1 << 12;

/// Launches every kernel for GPUs of this crate on a client, for layers of several kinds.
///
/// # Panics
/// Never: the layers are valid.
pub fn every_kernel(client: &Client) {
    let input = ActivationScheme::try_new(0.02, 117).expect("a normal scale");
    let [x, y] = [(); 2].map(|()| Words::empty(client, WORDS));
    let launches = Launches { client, input, output: OutputScheme::rectified(input), x, y };
    for groups in [1, 2] {
        launches.of_convolutions(groups);
    }
    launches.of_products();
    launches.of_depthwise_windows();
    launches.of_codes();
}

/// The launches of layers; no buffer is read.
struct Launches<'a> {
    client: &'a Client,
    input: ActivationScheme,
    output: OutputScheme,
    x: Words,
    y: Words,
}

impl Launches<'_> {
    /// Two inputs, of which a kernel reads one or both.
    fn run(&self, kernel: &dyn DeviceKernel) {
        kernel.run(self.client, &[&self.x, &self.x], &self.y, SAMPLES);
    }

    /// The codes of sums, and those to which codes are added.
    fn addends(&self) -> [Option<ActivationScheme>; 2] {
        [None, Some(self.input)]
    }

    /// The kernel of windows, with and without groups.
    fn of_convolutions(&self, groups: usize) {
        let (geometry, weights) = self.layer(groups);
        for addend in self.addends() {
            let Self { client, output, .. } = *self;
            let kernel = CubeConvolution::try_new(client, &geometry, &weights, output, addend);
            self.run(&kernel.expect("small factors"));
        }
    }

    /// The same kernel for matrix products: its codes are those of windows, its sums are not.
    fn of_products(&self) {
        let Self { client, output, .. } = *self;
        let weights = self.weights(CHANNELS);
        let kernel = CubeConvolution::try_product(client, CHANNELS, &weights, output);
        kernel.expect("small factors").run_sums(client, &self.x, &self.y, SAMPLES);
    }

    /// The kernels of windows of single channels, a line for each.
    fn of_depthwise_windows(&self) {
        let Self { client, input, output, .. } = *self;
        let (geometry, weights) = self.layer(CHANNELS);
        for addend in self.addends() {
            let kernel = CubeDepthwise::try_new(client, &geometry, &weights, output, addend);
            self.run(&kernel.expect("small factors"));
        }
        self.run(&CubeMaximum::new(&geometry));
        let mean = CubeMean::try_new(client, &geometry, Pooling::MeanOfImage, input, output);
        self.run(&mean.expect("small factors"));
    }

    /// The kernels of codes, a line for each.
    fn of_codes(&self) {
        let Self { client, input, output, .. } = *self;
        let sizes = [CHANNELS, PIXELS];
        for is_repeated in [false, true] {
            self.run(&CubePairs::new(client, sizes, is_repeated, |_, _, _| {}));
        }
        for table in [None, Some([0; 256])] {
            // The second input keeps the codes of the first one.
            let places = Places::of_channels(CHANNELS, 0, CHANNELS);
            let parts = [(places.clone(), table), (places, table)];
            self.run(&CubeCopies::new(client, sizes, &parts));
        }
        self.run(&CubeTable::new(client, sizes, &[0; 256]));
        let shape = [CHANNELS, SIDES[0] / 2, SIDES[1] / 2];
        let resize = QuantizedResize::new(shape, SIDES, Resizing::Linear, input, output);
        let blend = CubeBlend::try_new(client, &resize, CHANNELS, output);
        self.run(&blend.expect("small factors"));
    }

    /// Windows of 3 × 3 pixels over some groups of channels, with their weights.
    fn layer(&self, groups: usize) -> (ConvGeometry, QuantizedWeights) {
        let shape = ConvShape {
            groups,
            padding: [1, 1],
            ..ConvShape::new(SAMPLES, [CHANNELS; 2], SIDES, [3, 3])
        };
        let geometry = ConvGeometry::try_new(shape).expect("windows that fit");
        (geometry, self.weights(geometry.weight_len() / CHANNELS))
    }

    /// Weights, so many of each output channel.
    fn weights(&self, each: usize) -> QuantizedWeights {
        let (values, scales, bias) =
            (vec![1; CHANNELS * each], vec![0.01; CHANNELS], vec![0; CHANNELS]);
        QuantizedWeights::try_new(values, scales, bias, self.input).expect("small sums")
    }
}
