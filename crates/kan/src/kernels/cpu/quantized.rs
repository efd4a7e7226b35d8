//! The forward pass of a layer with int8 coefficients.

use std::ops::Range;

use updraft_simd::{Isa, dispatch};

use super::ROWS;
use super::bspline_uniform::Uniform;
use super::quantized_inputs::{INPUTS, Preparation, Seen};
use super::quantized_tile::Tile;
use crate::kernels::geometry::LayerGeometry;
use crate::kernels::quantized::{BLOCK, BaseWeights, Coefficients, tiles};
use crate::kernels::scratch::QuantizedSpace;

/// Samples per job: with more samples, the coefficients are read from memory less often.
pub(crate) const QUANTIZED_ROWS: usize = 4 * ROWS;

/// At most [`QUANTIZED_ROWS`] samples of a quantized layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantizedJob<'a> {
    pub(crate) geometry: &'a LayerGeometry,
    pub(crate) uniform: Uniform,
    pub(crate) splines: &'a [Coefficients],
    /// Empty if there is no base branch.
    pub(crate) base: &'a [BaseWeights],
    /// The value of one step of the products of basis values and coefficients, `[out_features]`.
    pub(crate) units: &'a [f32],
    /// The value of one step of the base weights, `[out_features]`.
    pub(crate) base_units: &'a [f32],
    pub(crate) bias: &'a [f32],
    pub(crate) x: &'a [f32],
}

impl QuantizedJob<'_> {
    pub(crate) fn run(self, isa: Isa, y: &mut [f32], space: &mut QuantizedSpace) {
        let Self { geometry, uniform, x, .. } = self;
        let (inputs, outputs) = (geometry.in_features(), geometry.out_features());
        let rows = x.len() / inputs;
        assert!(rows <= QUANTIZED_ROWS, "samples of a job");
        let sums = rows * outputs.next_multiple_of(BLOCK);
        space.integers.grown(sums).fill(0);
        space.floats.grown(sums).fill(0.0);
        let preparation = Preparation { geometry, uniform, has_base: !self.base.is_empty(), x };
        for first in (0..inputs).step_by(INPUTS) {
            let block = first..(first + INPUTS).min(inputs);
            prepare(isa.vectors(), preparation, block.clone(), space);
            let QuantizedSpace { quads, windows, pairs, steps, integers, floats, .. } = space;
            let seen = Seen { count: block.len(), quads, windows, pairs, steps };
            let (integers, floats) = (integers.grown(sums), floats.grown(sums));
            let mut following = tiles(outputs).skip(1);
            for outputs in tiles(outputs) {
                let next = following.next();
                let sums = outputs.start * rows..outputs.end * rows;
                let tile = Tile {
                    width: outputs.len(),
                    intervals: geometry.grid().intervals(),
                    splines: self.splines_of(&outputs, &block),
                    base: self.base_of(&outputs, &block),
                    next: next.map_or(&[], |next| self.splines_of(&next, &block)),
                    seen,
                };
                tile.run(isa.int8_vectors(), &mut integers[sums.clone()], &mut floats[sums]);
            }
        }
        let (integers, floats) = (space.integers.grown(sums), space.floats.grown(sums));
        for outputs in tiles(outputs) {
            self.finish(outputs, rows, integers, floats, y);
        }
        for (x, y) in x.chunks_exact(inputs).zip(y.chunks_exact_mut(outputs)) {
            if x.iter().fold(false, |found, x| found | x.is_nan()) {
                y.fill(f32::NAN);
            }
        }
    }

    /// `[inputs][intervals][blocks of the outputs]`.
    fn splines_of(&self, outputs: &Range<usize>, inputs: &Range<usize>) -> &[Coefficients] {
        let intervals = self.geometry.grid().intervals();
        let first = outputs.start / BLOCK * self.geometry.in_features();
        let place = |input: usize| (first + input * outputs.len() / BLOCK) * intervals;
        &self.splines[place(inputs.start)..place(inputs.end)]
    }

    /// `[pairs of inputs][blocks of the outputs]`, or empty.
    fn base_of(&self, outputs: &Range<usize>, inputs: &Range<usize>) -> &[BaseWeights] {
        if self.base.is_empty() {
            return self.base;
        }
        let first = outputs.start / BLOCK * self.geometry.in_features().div_ceil(2);
        let place = |input: usize| first + input.div_ceil(2) * (outputs.len() / BLOCK);
        &self.base[place(inputs.start)..place(inputs.end)]
    }

    /// Writes the sums of a tile, scaled and with the bias, to the outputs.
    fn finish(
        &self,
        outputs: Range<usize>,
        rows: usize,
        integers: &[i32],
        floats: &[f32],
        y: &mut [f32],
    ) {
        let (width, count) = (outputs.len(), self.geometry.out_features());
        let known = outputs.start..outputs.end.min(count);
        let sums = outputs.start * rows..outputs.end * rows;
        let lines =
            integers[sums.clone()].chunks_exact(width).zip(floats[sums].chunks_exact(width));
        let [units, base_units, bias] =
            [self.units, self.base_units, self.bias].map(|numbers| &numbers[known.clone()]);
        for ((integers, floats), y) in lines.zip(y.chunks_exact_mut(count)) {
            let sums = integers.iter().zip(units).zip(floats.iter().zip(base_units));
            let shares =
                sums.map(|((&integer, unit), (float, base))| unit * integer as f32 + base * float);
            for ((y, share), bias) in y[known.clone()].iter_mut().zip(shares).zip(bias) {
                *y = bias + share;
            }
        }
    }
}

dispatch! {
    /// Prepares the samples of a job.
    fn prepare(
        simd,
        preparation: Preparation<'_>,
        inputs: Range<usize>,
        space: &mut QuantizedSpace,
    ) {
        preparation.run(simd, inputs, space);
    }
}
