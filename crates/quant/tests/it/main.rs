//! Tests of the public API.

mod bad_networks;
#[cfg(feature = "burn")]
mod capture;
mod codes;
#[cfg(feature = "cube")]
mod cube;
mod depth_to_space;
mod evaluation;
#[cfg(feature = "burn")]
mod fake_quantized;
mod file;
mod import;
mod import_attention;
mod import_hostile;
mod import_rounding;
mod import_shapes;
#[cfg(feature = "burn")]
mod in_burn;
mod in_f32;
mod limits;
mod low_bits;
mod memory;
#[cfg(feature = "burn")]
mod modules;
mod named_formats;
mod network;
mod onnx;
#[cfg(feature = "burn")]
mod output_lists;
mod ports;
#[cfg(feature = "burn")]
mod residual;
mod resize;
mod round_trip;
mod speed;
#[cfg(feature = "burn")]
mod transformer;
mod weights_only;
mod zeros;
