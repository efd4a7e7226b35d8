//! Winograd's algorithm: windows of three by three by a quarter of the products.

mod image;
mod transform;

pub(crate) use image::Winograd;
