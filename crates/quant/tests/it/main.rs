//! What the crate promises, seen from outside.

mod bad_networks;
mod file;
mod network;
mod onnx;
mod public_api;
