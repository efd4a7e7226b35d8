//! Tests through the public API only.

mod attention;
mod dual_autoencoder;
mod perceptron;
mod pruning;
mod separable;
mod table;
mod transformer;
mod unet;
mod whitened;
