//! Tests through the public API only.

mod perceptron;
mod separable;
mod unet;
