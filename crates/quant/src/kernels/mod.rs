//! Kernels on slices, which do not depend on burn.

mod algorithm;
mod channels;
mod convolution;
mod cpu;
#[cfg(any(feature = "cube", feature = "every-kernel"))]
#[cfg_attr(
    not(feature = "cube"),
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        reason = "only networks on GPUs use all of it"
    )
)]
pub(crate) mod cube;
mod depth_to_space;
mod elementwise;
mod four_bits;
mod linear;
mod packed;
mod pooling;
#[cfg(any(test, feature = "reference"))]
#[cfg_attr(
    not(feature = "reference"),
    expect(unreachable_pub, reason = "public with the feature `reference`")
)]
pub mod reference;
mod resize;
mod scratch;
mod transfer;
mod windows;

pub(crate) use algorithm::is_by_winograd;
pub(crate) use channels::Addend;
pub(crate) use convolution::QuantizedConvolution;
pub(crate) use cpu::{look_up, look_up_runs};
#[cfg(feature = "every-kernel")]
pub use cube::every_kernel;
pub(crate) use depth_to_space::QuantizedDepthToSpace;
pub(crate) use elementwise::{QuantizedAdd, QuantizedProduct};
pub use four_bits::{FourBitError, FourBitLinear};
pub use linear::QuantizedLinear;
pub use pooling::Pooling;
pub(crate) use pooling::{QuantizedPooling, means};
pub(crate) use resize::QuantizedResize;
pub use resize::Resizing;
pub use scratch::Scratch;
pub use transfer::quantize;
pub(crate) use transfer::{dequantize, dequantize_images, quantize_images};
pub use updraft_simd::Isa;
