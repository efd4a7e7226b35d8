#![doc = include_str!("../README.md")]

mod aligned;
#[cfg(target_arch = "x86_64")]
mod amx;
mod bf16;
mod dispatch;
mod int8;
mod isa;
mod layer_times;
pub mod matrix;
mod memory;
pub mod normal;
mod peak;
pub mod pixels;
mod prefetch;
mod products;
mod threads;
mod uninitialized;
mod vector;
pub mod winograd;

pub use aligned::{Aligned, CACHE_LINE_BYTES, grown};
pub use bf16::{
    BF16_SQUARE, Bf16Factor, Bf16Order, Bf16Unit, MultiplyTiles, MultiplyTilesAt, Square,
    TILE_LANES, TILE_TERMS, Tile, TileSteps, TilesAt, bf16_bits, pack_left, pack_right,
    round_to_bf16,
};
pub use dispatch::{Kernel, Vectors};
#[cfg(target_arch = "aarch64")]
pub use int8::NeonDot;
#[cfg(target_arch = "x86_64")]
pub use int8::{Avx512Vnni, AvxVnni, ByteTiles, TileRegisters, TileRows, TileSums};
pub use int8::{Clamp, INT8_LANES, Int8, Int8Kernel, Int8Vectors, Plus};
pub use isa::Isa;
pub use layer_times::{
    LayerId, LayerPass, LayerSpan, LayerTimer, NodeLayer, TimedPass, add_operations, mark_plain,
    time_layer, time_operation, time_part, times_layers,
};
pub use memory::{keep_memory, release_memory, set_memory_capacity, take_memory};
pub use peak::RegisterPeak;
pub use prefetch::prefetch;
pub use products::Products;
pub use threads::{Cut, Pieces, Together, Uneven, over, pool_threads, start_pool, threads};
pub use uninitialized::{fill_in_pieces, unspecified};
#[cfg(target_arch = "aarch64")]
pub use vector::Neon;
#[cfg(target_arch = "x86_64")]
pub use vector::{Avx2, Avx512};
pub use vector::{MAX_LANES, Portable, Simd};
