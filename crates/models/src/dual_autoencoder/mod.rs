//! The dual autoencoder: an encoder and a decoder that are autoencoders themselves.

mod block;
mod bottleneck;
mod config;
mod core;
mod error;
mod hourglass;
mod network;

pub use config::{CoreLayer, DualAutoencoderConfig, LatentAttention};
pub use error::DualAutoencoderConfigError;
pub use network::DualAutoencoder;
