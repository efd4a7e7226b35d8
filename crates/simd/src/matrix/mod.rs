//! Products of small matrices in registers, the packing of their factors, and the exponential
//! function: for kernels that are compiled for each instruction set.

mod exponential;
mod panels;
mod product;

pub use exponential::exponential;
pub use panels::{Rows, pack, pack_transposed, padded, width};
pub use product::{Left, Right, Target, multiply, tile_rows};
