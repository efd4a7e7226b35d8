//! Tiles that lie anywhere in a buffer of bf16, such as windows of images.

use super::{TILE_LANES, TILE_TERMS, Tile};

/// Where the tiles of successive steps of a sum lie, from the first one on, in terms.
#[derive(Debug, Clone, Default)]
pub struct TileSteps {
    offsets: Vec<u32>,
    largest: usize,
}

impl TileSteps {
    /// These offsets.
    #[must_use]
    pub fn new(offsets: Vec<u32>) -> Self {
        let largest = offsets.iter().copied().max().unwrap_or(0) as usize;
        Self { offsets, largest }
    }

    /// The offsets.
    #[must_use]
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }
}

/// Two tiles of every step of a sum, in one buffer.
///
/// Rows of a tile are as in [`Tile`]: 16 of 32 terms each, `pitch` terms apart.
#[derive(Debug, Clone, Copy)]
pub struct TilesAt<'a> {
    /// Pairs of terms, the first one lowest.
    pub pairs: &'a [u32],
    /// Terms from row to row of a tile.
    pub pitch: usize,
    /// Where both tiles of a step without offset lie, in terms.
    pub first: [usize; 2],
    /// The steps.
    pub steps: &'a TileSteps,
}

impl TilesAt<'_> {
    /// Checks that every tile lies in the buffer.
    ///
    /// # Panics
    /// If one does not.
    pub(super) fn check(&self) {
        let [first, second] = self.first;
        let last = first.max(second) + self.steps.largest + (TILE_LANES - 1) * self.pitch;
        assert!(
            self.steps.offsets.is_empty() || last + TILE_TERMS <= 2 * self.pairs.len(),
            "tiles up to term {} of {}",
            last + TILE_TERMS,
            2 * self.pairs.len()
        );
    }

    /// The first or second tile of every step.
    pub(super) fn gathered(&self, which: usize) -> Vec<Tile> {
        let term = |at: usize| self.pairs[at / 2] >> (16 * (at % 2)) & 0xFFFF;
        let tile = |&offset: &u32| {
            let mut tile = Tile::default();
            for (index, pair) in tile.0.iter_mut().enumerate() {
                let (row, column) = (index / TILE_LANES, 2 * (index % TILE_LANES));
                let at = self.first[which] + offset as usize + row * self.pitch + column;
                *pair = term(at) | term(at + 1) << 16;
            }
            tile
        };
        self.steps.offsets.iter().map(tile).collect()
    }
}
