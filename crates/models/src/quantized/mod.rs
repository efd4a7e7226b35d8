//! Layers that can be fake-quantized during training.

mod conv_block;
mod fake_quantizer;
mod linear;

pub(crate) use conv_block::{BlockConfig, ConvBlock, NormConfig};
pub(crate) use fake_quantizer::FakeQuantizer;
pub use fake_quantizer::WeightBits;
pub(crate) use linear::QuantizedLinear;
