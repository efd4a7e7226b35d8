//! Every kernel, launched for layers of several kinds: the list for programs that compile kernels
//! without a card.

use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

use super::expanded::{add_bias, contract, pack_weights, unpack_gradients, write_bases};
use super::{
    CubeLayer, Inputs, Part, Sizes, WeightGradients, bias_gradient, dense, expanded, forward,
    input_gradient, scaler_gradient, tensor_cores, weight_gradient,
};
use crate::grid::{Grid, Outside};
use crate::kernels::{Activation, CubeForm, LayerGeometry};

/// The sizes of every pass; kernels are compiled for the kind of a layer, not for these.
const BATCH: u32 = 256;
const FEATURES: u32 = 64;

/// Numbers of the largest buffer of these layers, and more.
const NUMBERS: usize = 1 << 20;

/// A layer as its kernels are compiled for it.
struct Kind {
    intervals: usize,
    degree: usize,
    outside: Outside,
    /// The function of the base branch, if there is one.
    activation: Option<Activation>,
    is_scaled: bool,
    has_bias: bool,
}

/// Few intervals and many, the degrees, the rules outside the domain, and all optional parameters.
const KINDS: [Kind; 4] = [
    Kind {
        intervals: 5,
        degree: 3,
        outside: Outside::Zero,
        activation: Some(Activation::Silu),
        is_scaled: true,
        has_bias: true,
    },
    Kind {
        intervals: 20,
        degree: 3,
        outside: Outside::Clamp,
        activation: Some(Activation::Relu),
        is_scaled: true,
        has_bias: false,
    },
    Kind {
        intervals: 8,
        degree: 2,
        outside: Outside::Extend,
        activation: Some(Activation::Identity),
        is_scaled: false,
        has_bias: true,
    },
    // More than the forms of all bases hold in registers.
    Kind {
        intervals: 60,
        degree: 1,
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
        let grid = Grid::uniform(-1.0, 1.0, kind.intervals, kind.degree);
        let grid = grid.expect("a domain that is not empty").with_outside(kind.outside);
        let features = FEATURES as usize;
        let activation = kind.activation.unwrap_or_default();
        let geometry = LayerGeometry::try_new(grid, features, features, activation);
        let geometry = geometry.expect("few features");
        let has_base = kind.activation.is_some();
        let layer = CubeLayer::new(&geometry, has_base, kind.is_scaled, kind.has_bias);
        let sizes = Sizes::new(&geometry, BATCH as usize);
        let launches = Launches { client, buffer, geometry: &geometry, layer, sizes };
        launches.of_products();
        launches.of_expanded();
        launches.of_parameters();
    }
}

/// The launches of a layer.
struct Launches<'a> {
    client: &'a Client,
    buffer: &'a dyn Fn(usize) -> BufferArg,
    geometry: &'a LayerGeometry,
    layer: CubeLayer,
    sizes: Sizes,
}

impl Launches<'_> {
    /// Any buffer: none is read.
    fn any(&self) -> BufferArg {
        (self.buffer)(NUMBERS)
    }

    fn inputs(&self) -> Inputs {
        Inputs { x: self.any(), spline: self.any(), base: self.any(), scaler: self.any() }
    }

    fn gradients(&self) -> WeightGradients {
        WeightGradients { spline: self.any(), base: self.any() }
    }

    /// The forms of our own products, a line for each kernel.
    fn of_products(&self) {
        let &Self { client, geometry, layer, sizes, .. } = self;
        let on_tensor_cores = |form| {
            tensor_cores::numbers(form)
                .is_some_and(|numbers| tensor_cores::is_for(client, layer, numbers))
        };
        for (form, is_possible) in [
            (CubeForm::Sparse, true),
            (CubeForm::Dense, dense::is_for(client, layer)),
            (CubeForm::Bf16, on_tensor_cores(CubeForm::Bf16)),
            (CubeForm::F16, on_tensor_cores(CubeForm::F16)),
        ] {
            if !is_possible {
                continue;
            }
            // The forms of tensor cores pack the weights before a pass.
            let packed = || Some([self.any(), self.any()]);
            let [x, y, dx, dy] = [(); 4].map(|()| self.any());
            let inputs = self.inputs();
            forward(client, form, geometry, layer, sizes, inputs, packed(), self.any(), y);
            let inputs = self.inputs();
            input_gradient(client, form, geometry, layer, sizes, inputs, packed(), self.any(), dx);
            weight_gradient(client, form, geometry, layer, sizes, x, dy, self.gradients());
        }
    }

    /// The forms of expanded bases, a line for each kernel.
    fn of_expanded(&self) {
        let &Self { client, geometry, layer, sizes, .. } = self;
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
                write_bases(client, geometry, layer, sizes, part, numbers, is_for_gradients, x, to);
            }
            let weights = [self.any(), self.any(), self.any()];
            pack_weights(client, layer, sizes, part, numbers, weights, self.any());
            let (x, of_values, dx) = (self.any(), self.any(), self.any());
            contract(client, geometry, layer, sizes, part, numbers, x, of_values, dx);
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
