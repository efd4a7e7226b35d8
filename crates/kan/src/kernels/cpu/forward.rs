//! A layer's outputs: samples pass by weights that stay in the fastest cache.
//!
//! A panel holds the weights of a few inputs for a tile of outputs, and fits the first-level
//! cache; a line of samples passes by the panels of several tiles while the second-level cache
//! holds what it sees of the splines. A group of samples takes its sums into registers; for each
//! input of the panel, all add the row of base weights, and every sample the `degree + 1` rows of
//! coefficients that its window names, read as operands of the products. So the number of products
//! does not depend on that of the intervals, and no sample's bases are ever laid out.

use std::ops::Range;

use updraft_simd::{Isa, Simd, dispatch};

use super::flush::Flush;
use super::panel::Panel;
use super::taps;
use super::weights::{self, rows_of_weights};
use super::{Blocking, ROWS};
use crate::kernels::geometry::{LayerGeometry, Weights};
use crate::kernels::scratch::{Taps, Workspace};

/// Numbers of a panel: 20 KiB, which leaves room beside it for what streams past.
const PANEL: usize = 5 * 1024;

/// The outputs of some samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardJob<'a> {
    pub(crate) geometry: &'a LayerGeometry,
    pub(crate) weights: Weights<'a>,
    /// All weights as [`pack_all`] lays them out, if that has been done; of `weights` only the bias
    /// is read then, and which others there are.
    pub(crate) packed: Option<&'a [f32]>,
    /// `[rows, in_features]`.
    pub(crate) x: &'a [f32],
}

impl ForwardJob<'_> {
    /// Computes `y`, `[rows, out_features]`.
    ///
    /// The geometry has checked the weights.
    ///
    /// # Panics
    /// If `y` or the packed weights do not fit, or the CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, y: &mut [f32], space: &mut Workspace) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        let rows = self.x.len() / self.geometry.in_features();
        assert_eq!(y.len(), rows * self.geometry.out_features(), "outputs");
        let all = weights::numbers_of_all(isa, self.geometry, &self.weights);
        assert!(self.packed.is_none_or(|packed| packed.len() == all), "packed weights");
        all_outputs(isa.vectors(), self, y, space);
    }
}

/// Lays all weights out in the order in which a set's [jobs](ForwardJob) read them.
///
/// The geometry has checked the weights.
///
/// # Panics
/// If `to` does not fit, or the CPU does not have `isa`.
pub(crate) fn pack_all(isa: Isa, geometry: &LayerGeometry, weights: &Weights<'_>, to: &mut [f32]) {
    assert!(isa.is_available(), "this CPU has no {isa}");
    assert_eq!(to.len(), weights::numbers_of_all(isa, geometry, weights), "packed weights");
    pack_weights(isa.vectors(), geometry, weights, to);
}

/// All outputs of a job.
#[inline(always)]
fn outputs<S: Simd>(simd: S, job: &ForwardJob<'_>, y: &mut [f32], space: &mut Workspace) {
    let in_features = job.geometry.in_features();
    let has_base = job.weights.base.is_some();
    let Workspace { taps, packed, tile, .. } = space;
    let lines = job.x.chunks(ROWS * in_features);
    if taps.len() < lines.len() {
        taps.resize_with(lines.len(), Taps::default);
    }
    let sums = tile.grown(ROWS * S::OUTPUTS * S::LANES);
    let mut left = job.packed;
    for inputs in weights::blocks(in_features) {
        for (x, taps) in lines.clone().zip(taps.iter_mut()) {
            taps::grouped(simd, job.geometry, has_base, x, inputs.clone(), taps);
        }
        let taps = &taps[..lines.len()];
        let of_column = inputs.len() * rows_of_weights(job.geometry, &job.weights);
        for columns in weights::groups::<S>(job.geometry.out_features()) {
            let width = weights::width_of_tile::<S>(&columns);
            let count = of_column * columns.len().next_multiple_of(S::LANES);
            let packed = match left.as_mut().and_then(|left| left.split_off(..count)) {
                Some(packed) => packed,
                None => {
                    let packed = packed.grown(count);
                    let (geometry, weights) = (job.geometry, &job.weights);
                    let (own, all) = (inputs.clone(), columns.clone());
                    weights::pack_tiles(simd, geometry, weights, own, all, packed);
                    packed
                }
            };
            for (line, taps) in taps.iter().enumerate() {
                let tiles = packed.chunks(of_column * width);
                for (column, packed) in columns.clone().step_by(width).zip(tiles) {
                    let mut block = Block { job, line, taps, inputs: inputs.clone(), packed, sums };
                    // Only the tiles that a set has are compiled for it.
                    let vectors = (columns.end - column).min(width).div_ceil(S::LANES);
                    if const { S::OUTPUTS == 1 } {
                        block.tile::<S, 1, 8>(simd, column, y);
                    } else if const { S::LANES > 8 } {
                        match vectors {
                            1 => block.tile::<S, 1, 8>(simd, column, y),
                            2 => block.tile::<S, 2, 8>(simd, column, y),
                            3 => block.tile::<S, 3, 4>(simd, column, y),
                            _ => block.tile::<S, 4, 4>(simd, column, y),
                        }
                    } else {
                        match vectors {
                            1 => block.tile::<S, 1, 8>(simd, column, y),
                            2 => block.tile::<S, 2, 4>(simd, column, y),
                            3 => block.tile::<S, 3, 4>(simd, column, y),
                            4 => block.tile::<S, 4, 2>(simd, column, y),
                            5 => block.tile::<S, 5, 2>(simd, column, y),
                            _ => block.tile::<S, 6, 2>(simd, column, y),
                        }
                    }
                }
            }
        }
    }
}

/// Some inputs of a line of samples, and their weights for a tile of outputs.
struct Block<'a> {
    job: &'a ForwardJob<'a>,
    line: usize,
    taps: &'a Taps,
    inputs: Range<usize>,
    /// `[inputs][rows of weights][N vectors]`.
    packed: &'a [f32],
    sums: &'a mut [f32],
}

impl Block<'_> {
    /// `N` vectors of outputs, from a column on, for `R` samples at a time.
    #[inline(always)]
    fn tile<S: Simd, const N: usize, const R: usize>(
        &mut self,
        simd: S,
        column: usize,
        y: &mut [f32],
    ) {
        let ForwardJob { geometry, ref weights, x, .. } = *self.job;
        let width = N * S::LANES;
        let of_input = rows_of_weights(geometry, weights) * width;
        let rows = x.len() / geometry.in_features();
        let rows = self.line * ROWS..rows.min((self.line + 1) * ROWS);
        let inputs_of_panel = (PANEL / of_input).max(1);
        let out_features = geometry.out_features();
        let last = self.inputs.len().div_ceil(inputs_of_panel) - 1;
        let mut flush = Flush {
            bias: self.job.weights.bias,
            is_first: self.inputs.start == 0,
            columns: column..(column + width).min(out_features),
            out_features,
            y,
        };
        for (index, weights) in self.packed.chunks(inputs_of_panel * of_input).enumerate() {
            let panel = Panel {
                geometry,
                taps: self.taps,
                inputs: self.inputs.len(),
                first_input: index * inputs_of_panel,
                weights,
                of_input,
                has_base: self.job.weights.base.is_some(),
            };
            let flush = (index == last).then_some(&mut flush);
            panel.add::<S, N, R>(simd, rows.clone(), &mut self.sums[..ROWS * width], flush);
        }
    }
}

dispatch! {
    /// All outputs of a job.
    fn all_outputs(simd, job: &ForwardJob<'_>, y: &mut [f32], space: &mut Workspace) {
        outputs(simd, job, y, space);
    }

    /// Packs all weights.
    fn pack_weights(simd, geometry: &LayerGeometry, weights: &Weights<'_>, to: &mut [f32]) {
        weights::pack_all(simd, geometry, weights, to);
    }
}
