//! The number of parameters beside that of the original network.

use burn::tensor::Device;
use updraft_integration::{Depth, DualPathwayConfig, GateKind, IntegrationPoint};
use updraft_testing::alone;

/// A network integrated at its early, middle and late stage.
#[derive(Clone, Copy)]
struct Network {
    depth: Depth,
    /// The width of a stage of multiple 1.
    channels: usize,
    classes: usize,
}

/// The five networks whose counts the original's authors or measurements of it give.
const PUBLISHED: [Network; 5] = [
    Network { depth: Depth::Shallow, channels: 32, classes: 10 },
    Network { depth: Depth::Shallow, channels: 32, classes: 1000 },
    Network { depth: Depth::Medium, channels: 64, classes: 1000 },
    Network { depth: Depth::Deep, channels: 64, classes: 1000 },
    Network { depth: Depth::Deep, channels: 24, classes: 1000 },
];

fn norm(channels: usize) -> usize {
    2 * channels
}

/// A convolution without bias, and its norm.
fn conv([input, output]: [usize; 2], kernel: usize) -> usize {
    input * output * kernel * kernel + norm(output)
}

/// The residual blocks of one pathway in a stage.
fn blocks([input, output]: [usize; 2], count: usize, is_strided: bool) -> usize {
    let has_shortcut = is_strided || input != output;
    let shortcut = if has_shortcut { conv([input, output], 1) } else { 0 };
    let first = conv([input, output], 3) + conv([output, output], 3) + shortcut;
    first + (count - 1) * 2 * conv([output, output], 3)
}

/// The nonlinear mix of feature maps: two 1×1 convolutions, each with its norm.
fn mix_of_maps(channels: usize) -> usize {
    conv([2 * channels, channels], 1) + conv([channels, channels], 1)
}

/// The nonlinear mix of pooled features: two linear layers without bias, one norm.
fn mix_of_pooled(channels: usize) -> usize {
    2 * channels * channels + norm(channels) + channels * channels
}

impl Network {
    /// Blocks of each stage, and its width as a multiple of the base.
    fn stages(self) -> Vec<(usize, usize)> {
        match self.depth {
            Depth::Shallow => vec![(1, 1), (1, 2)],
            Depth::Medium => vec![(2, 1), (2, 2), (2, 4)],
            _ => vec![(2, 2), (3, 4), (4, 8), (2, 16)],
        }
    }

    /// The widths before and after each stage, of a stem of this width.
    fn widths(self, stem: usize) -> Vec<[usize; 2]> {
        let mut input = stem;
        let width = |(_, multiple): (usize, usize)| {
            let output = multiple * self.channels;
            [std::mem::replace(&mut input, output), output]
        };
        self.stages().into_iter().map(width).collect()
    }

    fn is_integrated(self, stage: usize) -> bool {
        let stages = self.stages().len();
        [0, stages / 2, stages - 1].contains(&stage)
    }

    /// The stems and residual blocks of this many pathways, the first of colors and the second of
    /// brightness; a third has no stem.
    fn pathways(self, count: usize, stem: usize) -> usize {
        let stages = self.stages();
        let widths = self.widths(stem);
        let stage = |at: usize| blocks(widths[at], stages[at].0, at > 0);
        let stems = conv([3, stem], 3) + conv([1, stem], 3);
        stems + count * (0..stages.len()).map(stage).sum::<usize>()
    }

    fn last_width(self) -> usize {
        self.stages().last().map_or(0, |(_, multiple)| multiple * self.channels)
    }

    fn classifier(self) -> usize {
        let (features, hidden) = (self.last_width(), self.last_width() / 2);
        features * hidden + hidden + hidden * self.classes + self.classes
    }

    /// The parameters that the original allocates, and how many of them never get a gradient.
    ///
    /// Its stems have the base width in every depth. It has a third pathway of residual blocks that
    /// it never runs, and each integration has three weights and both mixes.
    fn original(self) -> [usize; 2] {
        let integration = |width: usize| 3 + mix_of_maps(width) + mix_of_pooled(width);
        let stem = self.channels;
        let widths = self.widths(stem);
        let integrated: Vec<usize> = (0..widths.len())
            .filter(|&at| self.is_integrated(at))
            .map(|at| widths[at][1])
            .collect();
        let last = self.last_width();
        let integrations: usize = integrated.iter().copied().map(integration).sum();
        let all = self.pathways(3, stem) + integrations + integration(last) + self.classifier();
        let third = self.pathways(3, stem) - self.pathways(2, stem);
        // The result of each stage's integration replaces that of the one before it.
        let replaced = integrations - integration(last);
        // The last stage's weight of the stream, and its mix of pooled features.
        let of_last = 1 + mix_of_pooled(last);
        [all, third + replaced + of_last + mix_of_maps(last)]
    }

    /// The parameters of ours: a stream between stages, and what is used.
    fn ours(self, gate: GateKind) -> usize {
        let stem = self.widths(0)[0][1];
        let chosen = |width: usize, streams: usize| match gate {
            GateKind::Static => streams,
            GateKind::Adaptive => streams + streams * width * width + norm(width) + width * streams,
        };
        let mut sum = self.pathways(2, stem);
        for (stage, widths) in self.widths(stem).into_iter().enumerate() {
            // The first stage is always integrated: a stream arrives at every other.
            if stage > 0 {
                sum += conv(widths, 3);
            }
            if self.is_integrated(stage) {
                sum += chosen(widths[1], if stage > 0 { 3 } else { 2 }) + mix_of_maps(widths[1]);
            }
        }
        let last = self.last_width();
        sum + chosen(last, 3) + mix_of_pooled(last) + self.classifier()
    }

    /// What `ours` adds to the original's count, by the rows of the table in the README.
    fn differences(self) -> [isize; 5] {
        let signed = |count: usize| isize::try_from(count).expect("far below the limit");
        let (stem, last) = (self.channels, self.last_width());
        let widths = self.widths(stem);
        let third = self.pathways(3, stem) - self.pathways(2, stem);
        let unused = |at: usize| mix_of_pooled(widths[at][1]);
        let pooled: usize =
            (0..widths.len()).filter(|&at| self.is_integrated(at)).map(unused).sum();
        let carry: usize = widths[1..].iter().map(|&widths| conv(widths, 3)).sum();
        let wider = self.pathways(2, widths[0][1]) - self.pathways(2, stem);
        [
            -signed(third),
            -signed(pooled),
            // With the weight of a stream that the first stage does not get.
            -signed(mix_of_maps(last) + 1),
            signed(carry),
            signed(wider),
        ]
    }
}

#[test]
fn the_original_has_its_published_number_of_parameters() {
    let counts = PUBLISHED.map(|network| network.original()[0]);
    assert_eq!(counts, [288_819, 321_489, 9_397_748, 180_927_476, 25_585_396]);
    // Of the first, 37.3 %; of the medium and the deep one 35.0 % and 34.9 %.
    let unused = PUBLISHED.map(|network| network.original()[1]);
    assert_eq!(unused, [107_588, 107_588, 3_292_039, 63_178_247, 8_892_487]);
}

/// The table in the README.
#[test]
fn the_differences_to_the_original_are_those_of_the_table() {
    let ours = PUBLISHED.map(|network| network.ours(GateKind::Static));
    assert_eq!(ours, [202_994, 235_664, 6_537_331, 124_917_235, 17_702_835]);
    let adaptive = PUBLISHED.map(|network| network.ours(GateKind::Adaptive));
    assert_eq!(adaptive, [230_386, 263_056, 6_991_347, 132_041_203, 18_707_763]);
    let expected = [
        [-76_288, -15_552, -12_545, 18_560, 0],
        [-76_288, -15_552, -12_545, 18_560, 0],
        [-2_773_248, -258_944, -197_633, 369_408, 0],
        [-55_205_632, -3_984_640, -3_149_825, 6_196_736, 133_120],
        [-7_768_992, -561_120, -443_905, 872_256, 19_200],
    ];
    assert_eq!(PUBLISHED.map(Network::differences), expected);
    for (network, ours) in PUBLISHED.into_iter().zip(ours) {
        let theirs = isize::try_from(network.original()[0]).expect("far below the limit");
        let sum = theirs + network.differences().iter().sum::<isize>();
        assert_eq!(usize::try_from(sum), Ok(ours));
    }
}

#[test]
fn our_networks_have_the_parameters_of_the_formula() {
    use IntegrationPoint::{Early, Late, Middle};

    let _alone = alone();
    let small = [Depth::Shallow, Depth::Medium, Depth::Deep];
    let small = small.map(|depth| Network { depth, channels: 3, classes: 7 });
    for network in PUBLISHED[..2].iter().chain(&small).copied() {
        for gate in [GateKind::Static, GateKind::Adaptive] {
            let Network { depth, channels, classes } = network;
            let config = DualPathwayConfig::new(classes, channels)
                .with_depth(depth)
                .with_integration_points(vec![Early, Middle, Late])
                .with_gate(gate);
            let count = config.init(&Device::flex()).parameter_count();
            assert_eq!(count, network.ours(gate), "{depth:?} {gate:?}");
        }
    }
}
