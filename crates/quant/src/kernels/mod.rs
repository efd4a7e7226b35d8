//! Kernels on bare slices; nothing here knows burn.

mod channels;
mod convolution;
mod cpu;
mod elementwise;
mod linear;
mod packed;
mod pooling;
#[cfg(any(test, feature = "reference"))]
#[cfg_attr(
    not(feature = "reference"),
    expect(unreachable_pub, reason = "public with the feature `reference`")
)]
pub mod reference;
mod scratch;
mod transfer;

pub use channels::Addend;
pub use convolution::QuantizedConvolution;
pub use elementwise::QuantizedAdd;
pub(crate) use elementwise::QuantizedProduct;
pub use linear::QuantizedLinear;
pub(crate) use pooling::means;
pub use pooling::{Pooling, QuantizedPooling};
pub use scratch::Scratch;
pub use transfer::{dequantize, quantize, quantize_images};
pub use updraft_simd::Isa;
