//! The operations that a backend must provide to run our kernels.
#![allow(
    clippy::too_many_arguments,
    reason = "a gradient needs what the forward pass knew; burn's macro copies the signature"
)]

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};

#[cfg(all(feature = "cube", feature = "fusion", feature = "autodiff"))]
use super::fusion::gradients;
#[cfg(feature = "flex")]
use super::packed_cache::PackedCache;
use crate::grid::Grid;
#[cfg(feature = "flex")]
use crate::kernels::PackedLayer;
#[cfg(feature = "cube")]
use crate::kernels::{Activation, CubeForm};
use crate::kernels::{ConvGeometry, Isa, LayerGeometry};

/// What a layer is, apart from its tensors.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) geometry: Geometry,
    /// The instruction set, on the CPU.
    pub(crate) isa: Option<Isa>,
    /// Where a linear layer in inference keeps its packed weights.
    #[cfg(feature = "flex")]
    pub(crate) cache: Option<PackedCache>,
    /// The forms on a GPU.
    #[cfg(feature = "cube")]
    pub(crate) forms: Forms,
}

/// The forms of kernels for GPUs that a layer asks for.
#[cfg(feature = "cube")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forms {
    /// The one that is forced.
    pub(crate) forced: Option<CubeForm>,
    /// The one with the precision of the input, if that is not f32.
    pub(crate) of_input: Option<CubeForm>,
}

/// The sizes of a layer.
#[derive(Debug, Clone)]
pub(crate) enum Geometry {
    Linear(Arc<LayerGeometry>),
    Conv(Arc<ConvGeometry>),
}

impl Geometry {
    /// The knots.
    pub(super) fn grid(&self) -> &Grid {
        match self {
            Self::Linear(of) => of.grid(),
            Self::Conv(of) => of.grid(),
        }
    }

    /// The function of the base branch.
    #[cfg(feature = "cube")]
    pub(super) fn activation(&self) -> Activation {
        match self {
            Self::Linear(of) => of.activation(),
            Self::Conv(of) => of.activation(),
        }
    }

    /// The shape of the outputs for that of an input.
    pub(super) fn output_shape(&self, input: &[usize]) -> Vec<usize> {
        match self {
            Self::Linear(of) => vec![input[0], of.out_features()],
            Self::Conv(of) => {
                let sides = of.output_shape(&input[2..]).expect("the operation has checked it");
                [&[input[0], of.out_channels()][..], &sides[..]].concat()
            }
        }
    }
}

impl Geometry {
    /// Floating-point operations of the products of a forward pass for the shape of an input: those
    /// of the functions of a spline that are not zero, and of the base branch.
    pub(super) fn operations(&self, input: &[usize], has_base: bool) -> u64 {
        let (edges, positions) = match self {
            Self::Linear(of) => (of.in_features() * of.out_features(), input[0]),
            Self::Conv(of) => {
                let sides = of.output_shape(&input[2..]).expect("the operation has checked it");
                (of.edges(), input[0] * sides.iter().product::<usize>())
            }
        };
        let functions = self.grid().degree() + 1 + usize::from(has_base);
        (2 * functions * edges * positions) as u64
    }
}

/// Which gradients are required: of the input, and of the parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) x: bool,
    pub(crate) parameters: bool,
}

/// A tensor that an operation may do without; burn's macro passes no `Option`.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(all(feature = "cube", feature = "fusion")))]
pub(crate) enum Operand<B: Backend> {
    /// It takes part.
    Given(FloatTensor<B>),
    /// There is none.
    Absent,
}

impl<B: Backend> Operand<B> {
    pub(crate) fn given(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Given(tensor) => Some(tensor),
            Self::Absent => None,
        }
    }
}

impl<B: Backend> From<Option<FloatTensor<B>>> for Operand<B> {
    fn from(tensor: Option<FloatTensor<B>>) -> Self {
        tensor.map_or(Self::Absent, Self::Given)
    }
}

/// Our operations, on f32 tensors.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(feature = "cube"),
    Autodiff: cfg(feature = "autodiff"),
    Fusion: cfg(all(feature = "cube", feature = "fusion"))
)]
pub(crate) trait KanBackend: Backend {
    /// A layer's outputs.
    #[fusion(dtype = x, shape = burn::tensor::Shape::from(spec.geometry.output_shape(x)))]
    fn kan_layer(
        x: FloatTensor<Self>,
        spline: FloatTensor<Self>,
        #[extension_type] base: Operand<Self>,
        #[extension_type] scaler: Operand<Self>,
        #[extension_type] bias: Operand<Self>,
        spec: Spec,
    ) -> FloatTensor<Self>;
}

/// The operation of packed weights, which only the CPU has.
#[cfg(feature = "flex")]
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait PackedBackend: Backend {
    /// The outputs of a layer with packed weights.
    fn kan_packed(x: FloatTensor<Self>, layer: Arc<PackedLayer>) -> FloatTensor<Self>;
}

/// The gradients of a layer; those that are not wanted are absent.
#[cfg(feature = "autodiff")]
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(all(feature = "cube", feature = "fusion")))]
pub(crate) struct LayerGradients<B: Backend> {
    #[extension_type]
    pub(crate) x: Operand<B>,
    #[extension_type]
    pub(crate) spline: Operand<B>,
    #[extension_type]
    pub(crate) base: Operand<B>,
    #[extension_type]
    pub(crate) scaler: Operand<B>,
    #[extension_type]
    pub(crate) bias: Operand<B>,
}

/// The gradients of our operations, on a backend below autodiff: burn differentiates once.
#[cfg(feature = "autodiff")]
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(feature = "cube"),
    Fusion: cfg(all(feature = "cube", feature = "fusion"))
)]
pub(crate) trait KanGradients: KanBackend {
    /// The gradients of the input and of the parameters, for that of the outputs.
    #[fusion(meta = gradients)]
    fn kan_layer_gradients(
        x: FloatTensor<Self>,
        spline: FloatTensor<Self>,
        #[extension_type] base: Operand<Self>,
        #[extension_type] scaler: Operand<Self>,
        has_bias: bool,
        dy: FloatTensor<Self>,
        spec: Spec,
        wanted: Wanted,
    ) -> LayerGradients<Self>;
}
