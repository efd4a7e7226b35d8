//! Layers in f32 whose weights are packed once, for batches.

use std::sync::OnceLock;

use updraft_simd::Isa;

use crate::clip::Clip;
use crate::kernels::FourBitLinear;
use updraft_conv::slices::{Activation, PackedConvolution, PackedProduct, Scratch};

/// Packed weights of a layer in f32.
#[derive(Debug)]
pub(crate) enum FloatKernel {
    Convolution {
        packed: Box<PackedConvolution>,
        /// The factor of a second tensor that is added.
        addend: Option<f32>,
    },
    Product(PackedProduct),
    FourBits(FourBitLinear),
}

/// The packed weights of a layer, made at its first run; none if samples are computed one by one.
pub(crate) type LazyFloatKernel = OnceLock<Option<FloatKernel>>;

impl FloatKernel {
    /// Computes all samples of `x`, clipped.
    pub(crate) fn run(
        &self,
        x: &[&[f32]],
        clip: Clip,
        y: &mut [f32],
        scratch: &mut Scratch,
        threads: usize,
    ) {
        let activation = match clip {
            Clip::RECTIFIER => Activation::Relu,
            Clip::RELU6 => Activation::Relu6,
            _ => Activation::Identity,
        };
        match self {
            Self::FourBits(packed) => {
                packed.run(Isa::detect(), x[0], y, threads);
                clip.apply(y);
                return;
            }
            Self::Product(packed) => packed.forward(x[0], activation, y, scratch, threads),
            Self::Convolution { packed, addend: None } => {
                packed.forward(x[0], activation, y, scratch, threads);
            }
            Self::Convolution { packed, addend: Some(factor) } => {
                packed.forward(x[0], Activation::Identity, y, scratch, threads);
                y.iter_mut().zip(x[1]).for_each(|(y, x)| *y += factor * x);
                clip.apply(y);
                return;
            }
        }
        if activation == Activation::Identity {
            clip.apply(y);
        }
    }
}
