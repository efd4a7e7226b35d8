//! What the crate promises, seen from outside.

mod bad_networks;
#[cfg(feature = "burn")]
mod capture;
mod file;
mod network;
mod onnx;
mod public_api;
