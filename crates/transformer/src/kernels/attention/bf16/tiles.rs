//! Factors of an attention's products in tiles.

use updraft_simd::matrix::Rows;
use updraft_simd::{
    BF16_SQUARE, Bf16Factor, TILE_LANES, TILE_TERMS, Tile, Vectors, grown, pack_left, pack_right,
};

/// Which factor of a product rows become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// What a product sums over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Terms {
    /// The numbers of a row.
    Numbers,
    /// The rows.
    Rows,
}

/// A factor in tiles, `[lanes in tiles][step of terms]`, as many lanes as fill squares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiles<'a> {
    tiles: &'a [Tile],
    steps: usize,
}

impl<'a> Tiles<'a> {
    /// The tiles of `steps` each.
    pub(super) const fn new(tiles: &'a [Tile], steps: usize) -> Self {
        Self { tiles, steps }
    }

    /// Packs rows.
    pub(super) fn pack(
        vectors: Vectors,
        side: Side,
        terms: Terms,
        rows: Rows<'_>,
        to: &'a mut Vec<Tile>,
    ) -> Self {
        let [lanes, of_terms] = match terms {
            Terms::Numbers => [rows.count, rows.len],
            Terms::Rows => [rows.len, rows.count],
        };
        let steps = of_terms.div_ceil(TILE_TERMS);
        let to = grown(to, lanes.div_ceil(BF16_SQUARE) * 2 * steps);
        let factor = Bf16Factor {
            numbers: rows.numbers,
            pitch: rows.pitch,
            rows_are_lanes: terms == Terms::Numbers,
        };
        for (tile, to) in to.chunks_mut(steps).enumerate() {
            let first = tile * TILE_LANES;
            let count = TILE_LANES.min(lanes.saturating_sub(first));
            pack_lanes(vectors, side, factor, first, [count, of_terms], to);
        }
        Self { tiles: to, steps }
    }

    /// Both tiles of a square's lanes, of some steps.
    pub(super) fn of_square(self, square: usize, first: usize, steps: usize) -> [&'a [Tile]; 2] {
        [0, 1].map(|half| &self.tiles[(2 * square + half) * self.steps + first..][..steps])
    }

    /// The same of all steps.
    pub(super) fn of_lanes(self, square: usize) -> [&'a [Tile]; 2] {
        self.of_square(square, 0, self.steps)
    }
}

/// Packs some lanes, zeros if there are none.
fn pack_lanes(
    vectors: Vectors,
    side: Side,
    factor: Bf16Factor<'_>,
    first: usize,
    count: [usize; 2],
    to: &mut [Tile],
) {
    match side {
        _ if count[0] == 0 => to.fill(Tile::default()),
        Side::Left => pack_left(vectors, factor, [first, 0], count, to),
        Side::Right => pack_right(vectors, factor, [first, 0], count, to),
    }
}

/// A square, whose rows are keys and whose columns are queries, as one step of a factor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) side: Side,
    /// [`Terms::Rows`] are its keys.
    pub(super) terms: Terms,
    /// Keys and queries that it holds; the others become zeros.
    pub(super) held: [usize; 2],
    /// The square of the factor's lanes that it is.
    pub(super) square: usize,
    /// Which step it is, of how many.
    pub(super) step: [usize; 2],
}

impl Step {
    /// Packs its numbers.
    pub(super) fn pack(
        self,
        vectors: Vectors,
        from: &[[f32; BF16_SQUARE]; BF16_SQUARE],
        to: &mut [Tile],
    ) {
        let [keys, queries] = self.held;
        let [lanes, terms] = match self.terms {
            Terms::Numbers => [keys, queries],
            Terms::Rows => [queries, keys],
        };
        let factor = Bf16Factor {
            numbers: from.as_flattened(),
            pitch: BF16_SQUARE,
            rows_are_lanes: self.terms == Terms::Numbers,
        };
        let [step, steps] = self.step;
        for half in 0..2 {
            let first = half * TILE_LANES;
            let count = [TILE_LANES.min(lanes.saturating_sub(first)), terms];
            let to = &mut to[(2 * self.square + half) * steps + step..][..1];
            pack_lanes(vectors, self.side, factor, first, count, to);
        }
    }
}
