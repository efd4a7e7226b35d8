//! The catalog of benchmark problems.

mod quant;

use crate::network::{CIFAR10, Network, PHOTOGRAPHS};
use crate::problem::batch_norm::BatchNorm;
use crate::problem::conv2d::{Conv2d, ConvPass};
use crate::problem::conv3d::Conv3d;
use crate::problem::decode::Decode;
use crate::problem::dual_autoencoder::DualAutoencoderPass;
use crate::problem::dual_pathway::DualPathwayInference;
use crate::problem::folded_network::FoldedNetwork;
use crate::problem::gather::Gather;
use crate::problem::kan_basis::{BASES, KanBasis};
use crate::problem::kan_basis_conv::KanBasisConv;
use crate::problem::kan_conv::KanConv;
use crate::problem::kan_layer::KanLayer;
use crate::problem::matmul::{Matmul, Number};
use crate::problem::optimizer::{Algorithm, OptimizerStep};
use crate::problem::photos::Photos;
use crate::problem::prepare_table::PrepareTable;
use crate::problem::read_table::{ReadTable, Reading};
use crate::problem::sliding::Sliding;
use crate::problem::table_step;
use crate::problem::train_step::TrainStep;
use crate::problem::transformer::{Part, Transformer};
use crate::problem::unet::UNetPass;
use crate::problem::volume_layer::{LayerKind, VolumeLayer};
use crate::problem::{Pass, Problem};
use crate::volume_network::VolumeNetwork;

/// A problem with the sentence that explains it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) about: &'static str,
    pub(crate) problem: Problem,
}

/// A convolution but for what of it is computed.
const fn convolution(
    batch: usize,
    channels: [usize; 2],
    side: usize,
    [kernel, stride, groups]: [usize; 3],
) -> Conv2d {
    let pass = ConvPass::Forward;
    Conv2d { batch, channels, groups, side, kernel, stride, pass, bf16: false }
}

/// Convolutions with descriptions; the last are large enough for single gradients.
const CONVOLUTIONS: [(Conv2d, &str); 11] = [
    (convolution(64, [3, 16], 32, [3, 2, 1]), "the CIFAR-10 model's color stem"),
    (convolution(64, [1, 16], 32, [3, 2, 1]), "the CIFAR-10 model's brightness stem"),
    (convolution(64, [16, 16], 16, [3, 1, 1]), "the CIFAR-10 model's first stage"),
    (convolution(64, [32, 16], 16, [1, 1, 1]), "the CIFAR-10 model's mix of two pathways"),
    (convolution(64, [16, 32], 16, [3, 2, 1]), "the CIFAR-10 model's way into its second stage"),
    (
        convolution(64, [16, 32], 16, [1, 2, 1]),
        "the CIFAR-10 model's shortcut into its second stage",
    ),
    (convolution(64, [32, 32], 8, [3, 1, 1]), "the CIFAR-10 model's second stage"),
    (convolution(128, [16, 16], 32, [3, 1, 1]), "16 channels at the full size of CIFAR-10"),
    (convolution(128, [32, 32], 16, [3, 1, 1]), "32 channels at half the size of CIFAR-10"),
    (convolution(8, [64, 64], 56, [3, 1, 1]), "64 channels of a larger network"),
    (convolution(8, [64, 64], 56, [3, 1, 64]), "the same, depthwise"),
];

/// Convolutions of small images with many channels, with descriptions.
const WIDE_CONVOLUTIONS: [(Conv2d, &str); 3] = [
    (convolution(64, [128, 128], 16, [3, 1, 1]), "128 channels of small images"),
    (convolution(64, [256, 256], 8, [3, 1, 1]), "256 channels of small images"),
    (convolution(64, [128, 128], 16, [1, 1, 1]), "128 channels of single pixels"),
];

/// Convolutions with descriptions that are computed with products in bf16, too; burn and the peers
/// compute in f32.
const BF16_CONVOLUTIONS: [(Conv2d, &str); 6] = [
    (
        convolution(128, [16, 16], 32, [3, 1, 1]),
        "16 channels at the full size of CIFAR-10, in bf16",
    ),
    (
        convolution(128, [32, 32], 16, [3, 1, 1]),
        "32 channels at half the size of CIFAR-10, in bf16",
    ),
    (convolution(8, [64, 64], 56, [3, 1, 1]), "64 channels of a larger network, in bf16"),
    (convolution(64, [128, 128], 16, [3, 1, 1]), "128 channels of small images, in bf16"),
    (convolution(64, [256, 256], 8, [3, 1, 1]), "256 channels of small images, in bf16"),
    (convolution(64, [128, 128], 16, [1, 1, 1]), "128 channels of single pixels, in bf16"),
];

/// What of a transformer's block is computed, and for how many tokens.
const TRANSFORMERS: [(Part, usize, bool, &str); 8] = [
    (Part::Attention, 512, false, "self-attention of 6 heads, without projections"),
    (Part::Attention, 2048, false, "the same, of a sequence whose pairs exceed the cache"),
    (Part::Attention, 512, true, "self-attention of 512 tokens in bf16; burn computes in f32"),
    (Part::Attention, 2048, true, "the same of a longer sequence"),
    (Part::Block, 512, false, "a block of a transformer with 384 numbers a token"),
    (Part::Block, 2048, false, "the same of a longer sequence"),
    (Part::Block, 512, true, "the block of 512 tokens in bf16; burn computes in f32"),
    (Part::Block, 2048, true, "the same of a longer sequence"),
];

/// Batch, channels and side of a batch norm.
const NORMS: [(usize, usize, usize, &str); 6] = [
    (64, 16, 16, "the CIFAR-10 model's first stage"),
    (64, 32, 8, "the CIFAR-10 model's second stage"),
    (128, 16, 32, "two million numbers"),
    (8, 64, 56, "64 channels of a larger network"),
    (128, 192, 4, "a late stage of a mobile network"),
    (128, 480, 1, "a channel for each number, as after a linear layer"),
];

/// Batch, inputs, outputs and intervals of a KAN layer.
const KAN_LAYERS: [([usize; 4], &str); 10] = [
    ([1, 784, 64, 5], "one sample through the first layer of a digit classifier"),
    ([256, 784, 64, 5], "the first layer of a digit classifier"),
    ([256, 64, 10, 5], "the last layer of a digit classifier"),
    ([64, 256, 256, 5], "a square layer, few samples"),
    ([256, 512, 512, 5], "a wide layer, a batch for GPUs that are emulated"),
    ([256, 512, 512, 20], "the same over a fine grid"),
    ([1024, 512, 512, 5], "a wide layer"),
    ([1024, 512, 512, 20], "a wide layer over a fine grid"),
    ([8192, 512, 512, 5], "a wide layer, a batch for GPUs"),
    ([8192, 512, 512, 20], "the same over a fine grid"),
];

/// Batch, channels, side and intervals of a convolution of splines, 3 × 3.
const KAN_CONVOLUTIONS: [(usize, [usize; 2], usize, usize, &str); 5] = [
    (1, [3, 16], 34, 5, "splines on every tap of a color stem, one image"),
    (8, [3, 16], 34, 5, "splines on every tap of a color stem"),
    (32, [3, 16], 34, 5, "splines on every tap of a color stem, more images"),
    (1, [64, 64], 34, 5, "splines on every tap of 64 channels, one image"),
    (8, [64, 64], 34, 5, "splines on every tap of 64 channels"),
];

/// Batch, inputs and outputs of a layer of functions in closed form.
const KAN_BASIS_LAYERS: [([usize; 3], &str); 2] = [
    ([256, 784, 64], "functions in closed form, the first layer of a digit classifier"),
    ([1024, 512, 512], "functions in closed form, a wide layer"),
];

/// Batch, channels and side of a convolution of functions in closed form, 3 × 3.
const KAN_BASIS_CONVOLUTIONS: [(usize, [usize; 2], usize, &str); 1] =
    [(8, [64, 64], 34, "functions in closed form on every tap of 64 channels")];

/// Batch, channels, side, kernel and stride.
type ConvolutionRow = (usize, [usize; 2], usize, [usize; 2], &'static str);

/// Convolutions of volumes; single gradients are computed of the first three.
const VOLUME_CONVOLUTIONS: [ConvolutionRow; 7] = [
    (2, [16, 16], 64, [3, 1], "a U-Net's finest level"),
    (2, [32, 16], 64, [3, 1], "the decoder's finest level"),
    (2, [32, 32], 32, [3, 1], "a U-Net's second level"),
    (2, [1, 16], 64, [3, 1], "a U-Net's first layer"),
    (2, [16, 32], 64, [3, 2], "the way into a U-Net's second level"),
    (2, [16, 32], 64, [1, 2], "the shortcut into a U-Net's second level"),
    (2, [64, 64], 16, [3, 1], "a U-Net's coarsest level"),
];

/// Kind, axes, batch, channels and side.
type LayerRow = (LayerKind, usize, usize, [usize; 2], usize, &'static str);

/// The other layers of a U-Net.
const VOLUME_LAYERS: [LayerRow; 9] = [
    (LayerKind::ConvTranspose, 3, 2, [64, 32], 16, "up to a U-Net's second level"),
    (LayerKind::ConvTranspose, 3, 2, [32, 16], 32, "up to a U-Net's finest level"),
    (LayerKind::ConvTranspose, 2, 8, [32, 16], 128, "the same of images"),
    (LayerKind::InstanceNorm, 3, 2, [16, 16], 64, "a U-Net's finest level, then leaky ReLU"),
    (LayerKind::GroupNorm, 3, 2, [16, 16], 64, "the same of four groups of channels"),
    (LayerKind::MaxPool, 3, 2, [16, 16], 64, "the maximum of 2 × 2 × 2 voxels"),
    (LayerKind::AvgPool, 3, 2, [16, 16], 64, "the average of 2 × 2 × 2 voxels"),
    (LayerKind::Resize, 3, 2, [16, 16], 32, "linear interpolation to double sides"),
    (LayerKind::Resize, 2, 8, [16, 16], 128, "the same of images"),
];

/// A U-Net's axes, batch and side.
const UNETS: [(usize, usize, usize, &str); 3] = [
    (3, 2, 64, "a U-Net of volumes"),
    (3, 8, 32, "the same on more and smaller volumes"),
    (2, 8, 256, "a U-Net of images"),
];

/// Axes, side, window and batch of windows.
const SLIDINGS: [(usize, usize, usize, usize, &str); 2] = [
    (3, 112, 64, 2, "a volume by windows that overlap by a quarter"),
    (2, 512, 128, 4, "a picture by windows that overlap by a quarter"),
];

/// A dual autoencoder's widths, latent, batch and side.
const DUAL_AUTOENCODERS: [([usize; 3], usize, usize, usize, &str); 2] = [
    ([64, 32, 16], 8, 8, 64, "the autoencoder of configs/kan-autoencoder.toml"),
    ([384, 128, 64], 16, 4, 128, "the dual autoencoder at its published widths"),
];

/// Every entry, in the order of the list.
pub(crate) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut add = |problem: Problem, about| {
        entries.push(Entry { id: problem.task().id(), about, problem });
    };
    for (side, about) in [(512, "a square product"), (1024, "a larger square product")] {
        for dtype in [Number::F32, Number::Bf16] {
            add(Problem::Matmul(Matmul { rows: side, inner: side, columns: side, dtype }), about);
        }
    }
    for pass in [ConvPass::Forward, ConvPass::Training] {
        for (convolution, about) in CONVOLUTIONS {
            add(Problem::Conv2d(Conv2d { pass, ..convolution }), about);
        }
    }
    for pass in [ConvPass::InputGradient, ConvPass::WeightGradient] {
        // A gradient of the smaller ones takes a fraction of a millisecond.
        for (convolution, about) in CONVOLUTIONS.into_iter().skip(7) {
            add(Problem::Conv2d(Conv2d { pass, ..convolution }), about);
        }
    }
    for pass in [ConvPass::Forward, ConvPass::Training] {
        for (convolution, about) in BF16_CONVOLUTIONS {
            add(Problem::Conv2d(Conv2d { pass, bf16: true, ..convolution }), about);
        }
        for (convolution, about) in WIDE_CONVOLUTIONS {
            add(Problem::Conv2d(Conv2d { pass, ..convolution }), about);
        }
    }
    for pass in [Pass::Forward, Pass::Training] {
        for (batch, channels, side, about) in NORMS {
            add(Problem::BatchNorm(BatchNorm { batch, channels, side, pass }), about);
        }
    }
    for pass in [Pass::Forward, Pass::Training] {
        // Training with single samples is not a realistic case.
        let alone = usize::from(pass == Pass::Training);
        for ([batch, inputs, outputs, intervals], about) in KAN_LAYERS.into_iter().skip(alone) {
            add(Problem::KanLayer(KanLayer { batch, inputs, outputs, intervals, pass }), about);
        }
    }
    for pass in [Pass::Forward, Pass::Training] {
        for (batch, channels, side, intervals, about) in KAN_CONVOLUTIONS {
            add(Problem::KanConv(KanConv { batch, channels, side, intervals, pass }), about);
        }
    }
    for pass in [Pass::Forward, Pass::Training] {
        for ([batch, inputs, outputs], about) in KAN_BASIS_LAYERS {
            for basis in BASES {
                add(Problem::KanBasis(KanBasis { basis, batch, inputs, outputs, pass }), about);
            }
        }
        for (batch, channels, side, about) in KAN_BASIS_CONVOLUTIONS {
            for basis in BASES {
                let conv = KanBasisConv { basis, batch, channels, side, pass };
                add(Problem::KanBasisConv(conv), about);
            }
        }
    }
    add_volumes(&mut add);
    for pass in [Pass::Training, Pass::Forward] {
        for (widths, latent, batch, side, about) in DUAL_AUTOENCODERS {
            let network = DualAutoencoderPass { widths, latent, batch, side, pass };
            add(Problem::DualAutoencoder(network), about);
        }
    }
    for batch in [16, 64, 256] {
        let about = "a training step of configs/cifar10.toml's network";
        add(Problem::TrainStep(TrainStep { network: CIFAR10, batch }), about);
    }
    let full_size = Network { stem_stride: 1, ..CIFAR10 };
    add(
        Problem::TrainStep(TrainStep { network: full_size, batch: 128 }),
        "the same network at the full size of its images",
    );
    let (network, batch) = (PHOTOGRAPHS, 8);
    add(
        Problem::TrainStep(TrainStep { network, batch }),
        "a training step of the dual-pathway network on photographs",
    );
    add(
        Problem::DualPathwayInference(DualPathwayInference { network, batch }),
        "its forward pass in evaluation",
    );
    add(
        Problem::DualPathwayInference(DualPathwayInference { network: CIFAR10, batch: 16 }),
        "the forward pass of configs/cifar10.toml's network in evaluation",
    );
    let photographs = Network { side: 224, ..CIFAR10 };
    for (network, batch, about) in [
        (CIFAR10, 1, "inference of configs/cifar10.toml's network, one image"),
        (CIFAR10, 64, "inference of configs/cifar10.toml's network, folded and as it is trained"),
        (full_size, 64, "the same at the full size of its images"),
        (photographs, 8, "the same with photographs"),
    ] {
        add(Problem::FoldedNetwork(FoldedNetwork { network, batch }), about);
    }
    let wide = Network { channels: 256, ..CIFAR10 };
    for (algorithm, network, about) in [
        (Algorithm::Adamw, CIFAR10, "AdamW over the parameters of configs/cifar10.toml's network"),
        (Algorithm::Adamw, wide, "AdamW over parameters that exceed the cache"),
        (Algorithm::Sgd, CIFAR10, "SGD over the parameters of configs/cifar10.toml's network"),
        (Algorithm::Sgd, wide, "SGD over parameters that exceed the cache"),
    ] {
        add(Problem::Optimizer(OptimizerStep { algorithm, network }), about);
    }
    for pass in [Pass::Forward, Pass::Training] {
        for (part, tokens, bf16, about) in TRANSFORMERS {
            let block = Transformer { part, tokens, heads: 6, head_dim: 64, pass, bf16 };
            add(Problem::Transformer(block), about);
        }
    }
    for (from, to, about) in
        [(32, 32, "a CIFAR-10 image"), (640, 224, "a photograph, shrunk for a network")]
    {
        add(Problem::Decode(Decode { from, to }), about);
    }
    add(
        Problem::Photos(Photos { files: 320, batch: 32, side: 224 }),
        "an epoch of photographs: read, decoded, shrunk and normalized",
    );
    add(
        Problem::Gather(Gather { images: 60_000, side: 28, batch: 256 }),
        "a batch of gray digits out of memory, shuffled and normalized",
    );
    for (reading, about) in [
        (Reading::Scan, "a million records read as bytes with the csv crate"),
        (Reading::Encode, "the same file read in columns, fitted and encoded"),
    ] {
        add(Problem::ReadTable(ReadTable { rows: 1_000_000, reading }), about);
    }
    add(
        Problem::PrepareTable(PrepareTable { rows: 1_000_000, least: 20 }),
        "16 columns of a file read, typed, encoded and scaled",
    );
    for (step, about) in [
        (table_step::adult(), "a training step of configs/adult.toml's network"),
        (table_step::published(), "a training step of configs/tables-large.toml's network"),
    ] {
        add(Problem::TableStep(step), about);
    }
    quant::add(&mut add);
    entries
}

/// Layers and networks of volumes.
fn add_volumes(add: &mut impl FnMut(Problem, &'static str)) {
    let passes =
        [ConvPass::Forward, ConvPass::Training, ConvPass::InputGradient, ConvPass::WeightGradient];
    for pass in passes {
        let count = if pass.is_on_tensors() { VOLUME_CONVOLUTIONS.len() } else { 3 };
        for (batch, channels, side, [kernel, stride], about) in &VOLUME_CONVOLUTIONS[..count] {
            let (batch, channels, sides) = (*batch, *channels, [*side; 3]);
            let (kernel, stride) = (*kernel, *stride);
            add(Problem::Conv3d(Conv3d { batch, channels, sides, kernel, stride, pass }), about);
        }
    }
    for pass in [Pass::Forward, Pass::Training] {
        for (layer, axes, batch, channels, side, about) in VOLUME_LAYERS {
            let layer = VolumeLayer { layer, axes, batch, channels, side, pass };
            add(Problem::VolumeLayer(layer), about);
        }
    }
    let filters = [16, 32, 64];
    for pass in [Pass::Training, Pass::Forward] {
        for (axes, batch, side, about) in UNETS {
            let network = VolumeNetwork { axes, filters };
            add(Problem::UNet(UNetPass { network, batch, side, pass }), about);
        }
    }
    for (axes, side, window, batch, about) in SLIDINGS {
        let network = VolumeNetwork { axes, filters };
        add(Problem::Sliding(Sliding { network, side, window, batch }), about);
    }
}

/// The entries that a filter selects: all whose id contains it, or that match its `*`.
pub(crate) fn select(filter: &str) -> Vec<Entry> {
    entries().into_iter().filter(|entry| matches(filter, &entry.id)).collect()
}

fn matches(filter: &str, id: &str) -> bool {
    if !filter.contains('*') {
        return id.contains(filter);
    }
    let mut parts = filter.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = id.strip_prefix(first) else { return false };
    let mut last = "";
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = part;
    }
    last.is_empty() || id.ends_with(last)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::problem::{Outputs, Site, error_of};
    use crate::strategy;

    #[test]
    fn ids_are_unique_and_fit_the_list() {
        let ids: Vec<String> = entries().into_iter().map(|entry| entry.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert!(ids.iter().all(|id| id.len() <= 48), "{ids:?}");
    }

    #[test]
    fn a_filter_is_a_part_of_the_id_or_has_stars() {
        let id = "conv2d/training-b64-16to16-16px-k3";
        for filter in ["conv2d", "training", "conv2d/*", "*-k3", "conv2d/*16px*", ""] {
            assert!(matches(filter, id), "{filter}");
        }
        for filter in ["conv1d", "training/*", "*-k1", "conv2d/*8px*x"] {
            assert!(!matches(filter, id), "{filter}");
        }
    }

    #[test]
    fn our_strategies_are_right_on_the_small_shape_of_every_entry() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut proved = Vec::new();
        for entry in entries() {
            let ids: Vec<String> =
                strategy::ours(&entry.problem).into_iter().map(|ours| ours.id).collect();
            let small = entry.problem.task().small();
            if proved.contains(&(small.clone(), ids.clone())) {
                continue;
            }
            let task = small.task();
            task.write_inputs(folder.path()).expect("written");
            let reference = task.reference().expect("computable");
            let mut outputs = Outputs::new();
            for id in &ids {
                let (device, kernels, _) = strategy::open(id).expect(id);
                let site = Site { device, kernels, threads: 2, folder: folder.path().to_owned() };
                let run = task.on_burn(&site).and_then(|mut run| run.outputs());
                outputs = run.expect(&entry.id);
                let proof = task.compare(id, &outputs, &reference).expect("comparable");
                assert!(proof.error <= proof.tolerance, "{} {id}: {proof:?}", entry.id);
            }
            // A reference of zeros, or one that every result equals, would not detect errors.
            for (name, values) in &reference {
                let wrong: Vec<f64> = values.iter().map(|value| value * 1.1 + 0.1).collect();
                let mut outputs = outputs.clone();
                outputs.insert(name.clone(), wrong);
                let error = error_of(&outputs, &reference).expect("comparable");
                assert!(error > task.tolerance(), "{} `{name}` proves nothing", entry.id);
            }
            proved.push((small, ids));
        }
    }

    #[test]
    fn work_is_counted_as_by_hand() {
        let find = |id: &str| {
            let found = entries().into_iter().find(|entry| entry.id == id);
            found.unwrap_or_else(|| panic!("no `{id}`")).problem.task().work()
        };
        // 2 · 128 · 16 · 32² · 16 · 9 and (2 · 128 · 16 · 32² + 16 · 16 · 9) · 4 bytes.
        let conv = find("conv2d/forward-b128-16to16-32px-k3");
        assert_eq!(conv.operations, Some(603_979_776));
        assert_eq!(conv.bytes, Some(16_786_432));
        assert_eq!(find("conv2d/training-b128-16to16-32px-k3").operations, Some(1_811_939_328));
        assert_eq!(find("matmul/f32-512x512x512").operations, Some(268_435_456));
    }
}
