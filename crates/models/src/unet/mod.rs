//! U-Nets of images and volumes: an encoder, a decoder, and skip connections.

mod block;
mod config;
mod layers;
mod network;
mod normalization;

pub use config::{Downsampling, UNetBlock, UNetConfig, UNetNormalization, Upsampling};
pub use layers::SpatialLayers;
pub use network::{UNet, UNet2d, UNet3d, UNetFlow};
