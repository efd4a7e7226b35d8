//! Which layers multiply bf16, and the partition of their inputs.

use updraft_simd::{BF16_SQUARE, Bf16Unit, Isa, Products, TILE_LANES, TILE_TERMS};

use crate::kernels::cpu::PixelSplines;
use crate::kernels::geometry::{LayerGeometry, Weights};

/// Inputs of a layer at least: with fewer, most of a tile is zeros.
const FEWEST_INPUTS: usize = 32;

/// Outputs of a layer and rows of a batch at least, for a unit of vectors and for tiles: with fewer,
/// evaluating and packing all functions takes longer than the products that it saves.
///
/// On a Zen 4, whose unit is of vectors, 9 terms in place of 5 products took 0.82 to 0.94 of the time at
/// 1024 rows of 512 to 512, 0.9 to 1.1 at 512 rows of 256 to 256, and the same at 256 rows of 784 to 64. The bounds of tiles follow from their rate, about fifteen times that of f32; the layer was not
/// timed with them.
const FEWEST_OUTPUTS: [usize; 2] = [512, 32];
const FEWEST_ROWS: [usize; 2] = [512, 32];

/// Tenths of the products in f32, which are of the functions alone that are not zero, that all terms may
/// be at most, for both.
const MOST_TERMS: [usize; 2] = [18, 80];

/// Terms of a chunk: they stay in the second-level cache for the rows of a piece.
const TERMS: usize = 640;

/// Chunks that are wanted at least, so that all threads have work.
const TASKS: usize = 8;

/// Rows that are computed together, by the result or by the sums of coefficients' gradients.
pub(super) const ROWS: usize = 128;

/// The sizes of a layer and a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(super) isa: Isa,
    pub(super) unit: Bf16Unit,
    pub(super) splines: PixelSplines,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) rows: usize,
}

/// Some inputs, with zeros that fill the last tile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub(super) first: usize,
    pub(super) count: usize,
    /// A multiple of the terms of a tile.
    pub(super) filled: usize,
}

impl LayerGeometry {
    /// Whether both passes of a batch of so many samples multiply bf16 on this processor, which
    /// [`with_products`](Self::with_products) allows.
    ///
    /// Only the presence of parameters matters, not their values: slices may be empty.
    ///
    /// # Example
    /// ```
    /// use updraft_kan::slices::{Activation, Grid, Isa, LayerGeometry, Weights};
    ///
    /// let layer =
    ///     LayerGeometry::try_new(Grid::uniform(-1.0, 1.0, 5, 3)?, 64, 64, Activation::Silu)?;
    /// assert!(!layer.multiplies_bf16(Isa::detect(), &Weights::default(), 1024));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn multiplies_bf16(&self, isa: Isa, weights: &Weights<'_>, batch: usize) -> bool {
        Plan::of(isa, self, weights, batch).is_some()
    }
}

impl Plan {
    /// The plan of a layer that multiplies bf16, if that takes less time than in f32.
    pub(crate) fn of(
        isa: Isa,
        geometry: &LayerGeometry,
        weights: &Weights<'_>,
        rows: usize,
    ) -> Option<Self> {
        let unit = Bf16Unit::detect();
        if geometry.products() != Products::Bf16 || !unit.is_fast() || isa.base() == Isa::Portable {
            return None;
        }
        let plan = Self::with_unit(isa, unit, geometry, weights, rows)?;
        let kind = usize::from(unit.has_tiles());
        let is_large = plan.inputs >= FEWEST_INPUTS
            && plan.outputs >= FEWEST_OUTPUTS[kind]
            && rows >= FEWEST_ROWS[kind];
        let (terms, products) = (plan.splines.terms(), plan.splines.products());
        (is_large && 10 * terms <= MOST_TERMS[kind] * products).then_some(plan)
    }

    /// The plan of a layer whose splines have a closed form.
    pub(super) fn with_unit(
        isa: Isa,
        unit: Bf16Unit,
        geometry: &LayerGeometry,
        weights: &Weights<'_>,
        rows: usize,
    ) -> Option<Self> {
        let splines = PixelSplines::of(geometry, true, weights.base.is_some())?;
        let (inputs, outputs) = (geometry.in_features(), geometry.out_features());
        Some(Self { isa: isa.base(), unit, splines, inputs, outputs, rows })
    }

    /// The chunks of inputs.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Chunk> + use<> {
        let terms = self.splines.terms();
        let inputs = self.inputs;
        // The chunks are the tasks of the coefficients' gradients.
        let most = (TERMS / terms / TILE_TERMS).max(1);
        let each = most.min(inputs.div_ceil(TASKS * TILE_TERMS)) * TILE_TERMS;
        (0..inputs).step_by(each).map(move |first| {
            let count = each.min(inputs - first);
            Chunk { first, count, filled: count.next_multiple_of(TILE_TERMS) }
        })
    }

    /// Terms of a chunk.
    pub(super) const fn depth(&self, chunk: Chunk) -> usize {
        chunk.filled * self.splines.terms()
    }

    /// Tiles of outputs, as many as whole squares have.
    pub(super) const fn panels(&self) -> usize {
        self.columns() / TILE_LANES
    }

    /// Outputs in whole squares.
    pub(super) const fn columns(&self) -> usize {
        self.outputs.next_multiple_of(BF16_SQUARE)
    }

    /// The input and the function of a term of a chunk; `None` after the last input.
    pub(super) fn term(&self, chunk: Chunk, at: usize) -> Option<[usize; 2]> {
        let (lanes, terms) = (self.isa.lanes(), self.splines.terms());
        let (vector, within) = (at / (terms * lanes), at % (terms * lanes));
        let input = vector * lanes + within % lanes;
        (input < chunk.count).then_some([chunk.first + input, within / lanes])
    }
}
