//! Products of matrices of bf16 with sums in f32, tile by tile.
//!
//! A tile is what the units of x86-64 for them take: 16 rows of 32 terms of the left factor, or 16 pairs
//! of terms of 16 columns of the right one. The order of sums is that of the unit, and plain Rust has the
//! same bits for each. Numbers below the normal range, 2⁻¹²⁶, count as zero.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod convert;
mod pack;
mod plain;
#[cfg(test)]
mod tests;
mod tiles_at;

pub use pack::{Factor as Bf16Factor, bf16_bits, pack_left, pack_right, round_to_bf16};
pub use plain::Order as Bf16Order;
pub use tiles_at::{TileSteps, TilesAt};

/// Rows, or columns, of a tile.
pub const TILE_LANES: usize = 16;

/// Terms of a tile.
pub const TILE_TERMS: usize = 32;

/// Rows and columns of a result that a product of [`Bf16Unit::run`] has.
pub const BF16_SQUARE: usize = 2 * TILE_LANES;

/// A tile: `[row][pair]` of a left factor, `[pair][column]` of a right one. A pair of terms is one
/// number, the first term lowest.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Tile([u32; TILE_LANES * TILE_LANES]);

impl Default for Tile {
    fn default() -> Self {
        Self([0; TILE_LANES * TILE_LANES])
    }
}

/// `c = a·b`.
pub type MultiplyTiles<'a> = dyn FnMut(&mut Square, [&[Tile]; 2], [&[Tile]; 2]) + 'a;

/// The same of tiles anywhere in buffers, as many steps of `a` and of `b`.
pub type MultiplyTilesAt<'a> = dyn FnMut(&mut Square, TilesAt<'_>, TilesAt<'_>) + 'a;

/// What multiplies tiles.
#[derive(Debug, Clone, Copy)]
pub enum Bf16Unit {
    /// The tile unit of x86-64, AMX.
    #[cfg(target_arch = "x86_64")]
    Amx(amx::Amx),
    /// The vector instruction for pairs of terms of AMD's x86-64 processors: twice as fast as f32.
    #[cfg(target_arch = "x86_64")]
    Vectors(avx512::Avx512Bf16),
    /// Rust, in the order of one of them: slower than products in f32.
    Plain(Bf16Order),
}

impl Bf16Unit {
    /// The fastest one of this CPU.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(amx) = amx::Amx::detect() {
            return Self::Amx(amx);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = avx512::Avx512Bf16::detect() {
            return Self::Vectors(vectors);
        }
        Self::Plain(Bf16Order::Halves)
    }

    /// Rust with the same bits.
    #[must_use]
    pub const fn plain(self) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(_) => Self::Plain(Bf16Order::Halves),
            #[cfg(target_arch = "x86_64")]
            Self::Vectors(_) => Self::Plain(Bf16Order::Pairs),
            Self::Plain(order) => Self::Plain(order),
        }
    }

    /// Whether it is faster than products in f32.
    #[must_use]
    pub const fn is_fast(self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Whether it is so much faster that products of 3 × 3 convolutions take less time than a quarter of
    /// them in f32 by Winograd's algorithm.
    #[must_use]
    pub const fn has_tiles(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Self::Amx(_) = self {
            return true;
        }
        false
    }

    /// Computes products of some rows and columns, `c = a·b`, with one setup of the unit for all of
    /// them: `multiply` takes `c`, `a` and `b`, as many tiles each of the first and of the second
    /// [`TILE_LANES`] rows or columns.
    ///
    /// # Panics
    /// In `multiply`, if factors have different numbers of tiles.
    pub fn run(self, compute: impl FnOnce(&mut MultiplyTiles<'_>)) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(amx) => {
                let tiles = amx.configure();
                compute(&mut |c, a, b| tiles.multiply(c, a, b));
            }
            #[cfg(target_arch = "x86_64")]
            Self::Vectors(vectors) => compute(&mut |c, a, b| vectors.multiply(c, a, b)),
            Self::Plain(order) => compute(&mut |c, a, b| plain::multiply(order, c, a, b)),
        }
    }

    /// The same as [`run`](Self::run) of tiles anywhere in buffers.
    ///
    /// # Panics
    /// In `multiply`, if factors have different numbers of steps, or a tile is not in its buffer.
    pub fn run_at(self, compute: impl FnOnce(&mut MultiplyTilesAt<'_>)) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(amx) => {
                let tiles = amx.configure();
                compute(&mut |c, a, b| tiles.multiply_at(c, a, b));
            }
            #[cfg(target_arch = "x86_64")]
            Self::Vectors(vectors) => compute(&mut |c, a, b| vectors.multiply_at(c, a, b)),
            Self::Plain(order) => compute(&mut |c, a, b| plain::multiply_at(order, c, a, b)),
        }
    }
}

/// A part of a result: [`BF16_SQUARE`] rows and columns.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Square(pub [[f32; BF16_SQUARE]; BF16_SQUARE]);

impl Default for Square {
    fn default() -> Self {
        Self([[0.0; BF16_SQUARE]; BF16_SQUARE])
    }
}
