//! Layers and networks in eight bits.

use crate::network::PHOTOGRAPHS;
use crate::problem::Problem;
use crate::problem::calibrate::{Calibrate, Method};
use crate::problem::dual_pathway::Int8DualPathway;
use crate::problem::four_bit_product::FourBitProduct;
use crate::problem::int8_deep::{Family, Int8Deep};
use crate::problem::int8_layer::{Int8Layer, LayerKind};
use crate::problem::int8_network::{Int8Network, Shape};
use crate::problem::int8_product::{Int8Product, Tail};

/// Rows, inner dimension and columns of a product of bytes.
const INT8_PRODUCTS: [([usize; 3], &str); 5] = [
    ([256, 256, 256], "a small square product of bytes"),
    ([512, 512, 512], "a square product of bytes"),
    ([1024, 1024, 1024], "a larger square product of bytes"),
    ([1024, 576, 64], "a convolution's product: 64 channels, windows of 3 × 3"),
    ([1, 1024, 1024], "one sample through a wide layer"),
];

/// Kind, batch, channels, side, and kernel, stride and groups.
type Int8Row = (LayerKind, usize, [usize; 2], usize, [usize; 3], &'static str);

/// Layers in eight bits.
const INT8_LAYERS: [Int8Row; 24] = [
    (LayerKind::Convolution, 8, [64, 64], 32, [3, 1, 1], "64 channels, from codes to codes"),
    (LayerKind::Convolution, 8, [256, 256], 8, [3, 1, 1], "256 channels of small images"),
    (LayerKind::Convolution, 8, [512, 512], 4, [3, 1, 1], "512 channels of tiny images"),
    (LayerKind::Convolution, 8, [64, 128], 32, [3, 2, 1], "the way into a second stage"),
    (LayerKind::Convolution, 8, [3, 64], 32, [3, 1, 1], "a color stem"),
    (LayerKind::Convolution, 8, [64, 256], 16, [1, 1, 1], "single pixels, to more channels"),
    (LayerKind::Convolution, 8, [256, 64], 16, [1, 1, 1], "single pixels, to fewer channels"),
    (LayerKind::Convolution, 8, [64, 128], 32, [1, 2, 1], "a shortcut into a second stage"),
    (LayerKind::Convolution, 16, [96, 96], 32, [3, 1, 96], "a channel each"),
    (LayerKind::Convolution, 32, [96, 96], 32, [3, 2, 96], "the same at stride 2"),
    (LayerKind::Convolution, 8, [128, 128], 16, [3, 1, 32], "groups of four channels"),
    (LayerKind::Linear, 256, [1024, 1024], 1, [1, 1, 1], "256 rows, from codes to codes"),
    (LayerKind::Transposed, 8, [64, 32], 16, [2, 2, 1], "a U-Net's way up"),
    (LayerKind::AveragePool, 32, [64, 64], 32, [2, 2, 1], "the mean of 2 × 2 pixels"),
    (LayerKind::MaxPool, 32, [64, 64], 32, [2, 2, 1], "the greatest of 2 × 2 pixels"),
    (LayerKind::MaxPool, 32, [64, 64], 32, [3, 2, 1], "the greatest of 3 × 3 pixels"),
    (LayerKind::Mean, 64, [64, 64], 32, [1, 1, 1], "the mean of each image"),
    (LayerKind::Add, 16, [64, 64], 32, [1, 1, 1], "a residual sum"),
    (LayerKind::Concatenate, 16, [64, 128], 32, [1, 1, 1], "a U-Net's skip connection"),
    (LayerKind::Nearest, 16, [64, 64], 16, [1, 1, 1], "to twice the sides, the nearest pixel"),
    (LayerKind::Bilinear, 16, [64, 64], 16, [1, 1, 1], "to twice the sides, interpolated"),
    (LayerKind::Silu, 16, [64, 64], 32, [1, 1, 1], "x·σ(x), a table of codes"),
    (LayerKind::HardSwish, 16, [64, 64], 32, [1, 1, 1], "hard swish, a table of codes"),
    (LayerKind::Sigmoid, 16, [64, 64], 32, [1, 1, 1], "σ(x), a table of codes"),
];

/// Adds the entries of `quant/`.
pub(super) fn add(add: &mut impl FnMut(Problem, &'static str)) {
    for tail in [Tail::Sums, Tail::Codes] {
        for ([rows, inner, columns], about) in INT8_PRODUCTS {
            add(Problem::Int8Product(Int8Product { rows, inner, columns, tail }), about);
        }
    }
    for (layer, batch, channels, side, [kernel, stride, groups], about) in INT8_LAYERS {
        let layer = Int8Layer { layer, batch, channels, side, kernel, stride, groups };
        add(Problem::Int8Layer(layer), about);
    }
    for (inner, columns, about) in [
        (1024, 1024, "one row times weights of four bits that fit into the cache"),
        (8192, 8192, "one row times weights of four bits, of 256 MiB in f32"),
    ] {
        add(Problem::FourBitProduct(FourBitProduct { rows: 1, inner, columns }), about);
    }
    let residual = Shape::Residual { channels: 64, side: 32 };
    let perceptron = Shape::Perceptron { inputs: 784, hidden: 1024 };
    for (shape, about) in [
        (residual, "a network of nine convolutions in eight bits, f32 in and out"),
        (perceptron, "three linear layers in eight bits, f32 in and out"),
    ] {
        for batch in [1, 32] {
            add(Problem::Int8Network(Int8Network { shape, batch }), about);
        }
    }
    for (network, about) in [
        (Family::Resnet18, "ResNet-18 on images of 32 × 32, in eight bits"),
        (Family::Resnet50, "ResNet-50 on images of 32 × 32, in eight bits"),
        (Family::Mobilenetv2, "a MobileNetV2 on images of 32 × 32, in eight bits"),
    ] {
        for batch in [1, 32] {
            let deep = Int8Deep { network, batch, side: 32, is_small: false };
            add(Problem::Int8Deep(deep), about);
        }
    }
    add(
        Problem::Int8DualPathway(Int8DualPathway { network: PHOTOGRAPHS, batch: 8 }),
        "the dual-pathway network on photographs, in eight bits",
    );
    let narrow = Shape::Residual { channels: 16, side: 32 };
    for (method, about) in [
        (Method::MinMax, "ranges from 512 images, by their ends"),
        (Method::Entropy, "ranges from 512 images, by what the codes lose of them"),
    ] {
        add(Problem::Calibrate(Calibrate { shape: narrow, images: 512, method }), about);
    }
}
