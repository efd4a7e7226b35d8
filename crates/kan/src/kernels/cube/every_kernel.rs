//! Every kernel, launched for layers of several kinds: the list for programs that compile kernels
//! without a card.

use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

use super::choice::is_available;
use super::expanded::{add_bias, contract, pack_weights, unpack_gradients, write_bases};
use super::{
    ConvImages, CubeLayer, Inputs, LayerGrid, Part, Rows, Sizes, WeightGradients, add_part,
    bias_gradient, expanded, fold, forward, gather_patches, gather_rows, input_gradient,
    scaler_gradient, scatter_rows, weight_gradient,
};
use crate::grid::{Grid, Outside};
use crate::kernels::{Activation, BaseBranch, ConvAxis, ConvGeometry, CubeForm};

/// The sizes of every pass; kernels are compiled for the kind of a layer, not for these.
const BATCH: u32 = 256;
const FEATURES: u32 = 64;

/// Numbers of the largest buffer of these layers, and more.
const NUMBERS: usize = 1 << 20;

/// The forms of our own products.
const PRODUCTS: [CubeForm; 4] = [CubeForm::Sparse, CubeForm::Dense, CubeForm::Bf16, CubeForm::F16];

/// A layer as its kernels are compiled for it.
struct Kind {
    intervals: usize,
    degree: usize,
    /// Whether each input has knots of its own.
    is_uneven: bool,
    outside: Outside,
    /// The function of the base branch, if there is one.
    activation: Option<Activation>,
    is_scaled: bool,
    has_bias: bool,
}

/// Few intervals and many, bases in closed form and by the recursion, the rules outside the domain,
/// and all optional parameters.
const KINDS: [Kind; 6] = [
    Kind {
        intervals: 5,
        degree: 3,
        is_uneven: false,
        outside: Outside::Zero,
        activation: Some(Activation::Silu),
        is_scaled: true,
        has_bias: true,
    },
    Kind {
        intervals: 20,
        degree: 3,
        is_uneven: false,
        outside: Outside::Clamp,
        activation: Some(Activation::Relu),
        is_scaled: true,
        has_bias: false,
    },
    Kind {
        intervals: 8,
        degree: 2,
        is_uneven: false,
        outside: Outside::Extend,
        activation: Some(Activation::Identity),
        is_scaled: false,
        has_bias: true,
    },
    Kind {
        intervals: 5,
        degree: 5,
        is_uneven: false,
        outside: Outside::Extend,
        activation: Some(Activation::Silu),
        is_scaled: true,
        has_bias: true,
    },
    Kind {
        intervals: 20,
        degree: 3,
        is_uneven: true,
        outside: Outside::Zero,
        activation: Some(Activation::Silu),
        is_scaled: true,
        has_bias: false,
    },
    // More than the forms of all bases hold in registers.
    Kind {
        intervals: 60,
        degree: 1,
        is_uneven: false,
        outside: Outside::Zero,
        activation: None,
        is_scaled: false,
        has_bias: false,
    },
];

/// Launches every kernel for GPUs of this crate on a client, for layers of several kinds; `buffer`
/// makes a buffer of so many numbers of four bytes, with any content.
///
/// # Panics
/// Never on a device that supports f32; forms that it does not support are left out.
pub fn every_kernel(client: &Client, buffer: &dyn Fn(usize) -> BufferArg) {
    for kind in KINDS {
        let grid = kind.grid();
        let features = FEATURES as usize;
        let layer = CubeLayer::new(&grid, kind.activation, kind.is_scaled, kind.has_bias);
        let sizes = Sizes::new(layer, BATCH as usize, features, features);
        let launches = Launches { client, buffer, grid: &grid, layer, sizes };
        launches.of_products(&PRODUCTS);
        launches.of_expanded();
        launches.of_parameters();
    }
    of_convolutions(client, buffer);
}

impl Kind {
    fn grid(&self) -> Grid {
        let &Self { intervals, degree, .. } = self;
        let grid = if self.is_uneven {
            let knots = (0..=intervals + 2 * degree).map(|knot| (knot * knot) as f32);
            let knots = std::iter::repeat_n(knots, FEATURES as usize).flatten().collect();
            Grid::per_feature(FEATURES as usize, knots, intervals, degree)
        } else {
            Grid::uniform(-1.0, 1.0, intervals, degree)
        };
        grid.expect("ascending knots").with_outside(self.outside)
    }
}

/// The passes that read and write images, and what the other forms launch for patches, a line for each
/// kernel.
fn of_convolutions(client: &Client, buffer: &dyn Fn(usize) -> BufferArg) {
    let kind = &KINDS[0];
    let grid = kind.grid();
    let layer = CubeLayer::new(&grid, kind.activation, kind.is_scaled, kind.has_bias);
    let axes = [ConvAxis { padding: 1, ..ConvAxis::new(3) }; 2];
    let branch = BaseBranch::ConvOfActivation;
    let geometry = ConvGeometry::try_new(grid.clone(), [8, 16], 2, &axes, Activation::Silu, branch);
    let images = ConvImages::new(&geometry.expect("few channels"), 4, &[16, 16]);
    let rows = Rows { first: 0, count: BATCH, group: 1, channels: 4, outputs: 8 };
    let sizes = Sizes::of_images(layer, images, rows);
    let launches = Launches { client, buffer, grid: &grid, layer, sizes };
    launches.of_products(&[CubeForm::Sparse, CubeForm::Dense]);
    launches.of_parameters();
    let any = || buffer(NUMBERS);
    gather_patches(client, images, rows, any(), any());
    scatter_rows(client, images, rows, any(), any());
    gather_rows(client, images, rows, any(), any());
    fold(client, images, rows, any(), any());
    add_part(client, NUMBERS, any(), any());
}

/// The launches of a layer.
struct Launches<'a> {
    client: &'a Client,
    buffer: &'a dyn Fn(usize) -> BufferArg,
    grid: &'a Grid,
    layer: CubeLayer,
    sizes: Sizes,
}

impl Launches<'_> {
    /// Any buffer: none is read.
    fn any(&self) -> BufferArg {
        (self.buffer)(NUMBERS)
    }

    fn grid(&self) -> LayerGrid<'_> {
        LayerGrid { grid: self.grid, knots: self.any() }
    }

    fn inputs(&self) -> Inputs {
        Inputs { x: self.any(), spline: self.any(), base: self.any(), scaler: self.any() }
    }

    fn gradients(&self) -> WeightGradients {
        WeightGradients { spline: self.any(), base: self.any() }
    }

    /// Some forms of our own products, a line for each kernel.
    fn of_products(&self, forms: &[CubeForm]) {
        let &Self { client, layer, sizes, .. } = self;
        for &form in forms {
            if !is_available(client, form, layer) {
                continue;
            }
            // The forms of tensor cores pack the weights before a pass.
            let packed = || Some([self.any(), self.any()]);
            let [x, y, dx, dy] = [(); 4].map(|()| self.any());
            let (grid, inputs) = (self.grid(), self.inputs());
            forward(client, form, grid, layer, sizes, inputs, packed(), self.any(), y);
            let (grid, inputs) = (self.grid(), self.inputs());
            input_gradient(client, form, grid, layer, sizes, inputs, packed(), self.any(), dx);
            weight_gradient(client, form, self.grid(), layer, sizes, x, dy, self.gradients());
        }
    }

    /// The forms of expanded bases, a line for each kernel.
    fn of_expanded(&self) {
        let &Self { client, grid, layer, sizes, .. } = self;
        let part = Part { first_sample: 0, samples: BATCH, first_input: 0, inputs: FEATURES };
        for (form, kind) in [
            (CubeForm::Expanded, FloatKind::F32),
            (CubeForm::ExpandedBf16, FloatKind::BF16),
            (CubeForm::ExpandedF16, FloatKind::F16),
        ] {
            if !expanded::is_for(client, layer, form) {
                continue;
            }
            let numbers = ElemType::Float(kind);
            for is_for_gradients in [false, true] {
                let (x, to) = (self.any(), self.any());
                write_bases(client, grid, layer, sizes, part, numbers, is_for_gradients, x, to);
            }
            let weights = [self.any(), self.any(), self.any()];
            pack_weights(client, layer, sizes, part, numbers, weights, self.any());
            let (x, of_values, dx) = (self.any(), self.any(), self.any());
            contract(client, grid, layer, sizes, part, numbers, x, of_values, dx);
        }
        unpack_gradients(client, layer, sizes, part, self.any(), self.gradients());
        add_bias(client, sizes, self.any(), self.any());
    }

    /// The gradients that all forms share, a line for each kernel.
    fn of_parameters(&self) {
        let &Self { client, layer, sizes, .. } = self;
        bias_gradient(client, sizes, self.any(), self.any());
        let [spline, scaler, of_spline, of_scaler] = [(); 4].map(|()| self.any());
        scaler_gradient(client, layer, sizes, spline, scaler, of_spline, of_scaler);
    }
}
