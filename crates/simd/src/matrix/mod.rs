//! Products of small matrices in registers, the packing of their factors, and exponential function,
//! sine and cosine: for kernels that are compiled for each instruction set.

mod exponential;
mod panels;
mod product;
mod wave;

pub use exponential::exponential;
pub use panels::{Rows, pack, pack_transposed, padded, width};
pub use product::{Left, Right, Target, multiply, tile_rows};
pub use wave::wave;
