//! Tests through the public API only.

mod perceptron;
mod public_api;
mod separable;
