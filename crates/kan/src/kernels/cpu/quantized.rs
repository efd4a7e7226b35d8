//! A layer's outputs from coefficients of eight bits.

use std::ops::Range;

use super::bspline_uniform::{Bases, Uniform};
use super::portable::Portable;
use super::vector::Simd;
use super::{GROUP, ROWS, function, pitch};
use crate::kernels::geometry::LayerGeometry;
use crate::kernels::quantized::{BLOCK, BaseWeights, Coefficients, QuantizedPath, tiles};
use crate::kernels::scratch::{QuantizedSpace, grown};

/// Inputs that are computed together: at few intervals, their coefficients for a tile of outputs
/// fit the fastest cache.
const INPUTS: usize = 16;

/// Numbers from one tap's line to the next.
const PITCH: usize = pitch(ROWS);

/// Steps that a basis value of 1 would have: the largest one, 2/3, has 255.
pub(crate) const STEPS_OF_ONE: f32 = 382.5;

/// Adding it leaves the nearest whole number in the lowest bits.
const ROUNDER: f32 = 12_582_912.0;

/// At most [`ROWS`] samples of a quantized layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantizedJob<'a> {
    pub(crate) geometry: &'a LayerGeometry,
    pub(crate) uniform: Uniform,
    pub(crate) splines: &'a [Coefficients],
    /// Empty if there is no base branch.
    pub(crate) base: &'a [BaseWeights],
    pub(crate) units: &'a [f32],
    pub(crate) bias: &'a [f32],
    pub(crate) x: &'a [f32],
}

impl QuantizedJob<'_> {
    pub(crate) fn run(self, path: QuantizedPath, y: &mut [f32], space: &mut QuantizedSpace) {
        let (inputs, outputs) = (self.geometry.in_features(), self.geometry.out_features());
        let rows = self.x.len() / inputs;
        assert!(rows <= ROWS, "samples of a job");
        let QuantizedSpace { quads, windows, activations, integers, floats } = space;
        let padded = outputs.next_multiple_of(BLOCK);
        let quads = grown(quads, ROWS * INPUTS);
        let windows = grown(windows, ROWS * INPUTS);
        let activations = grown(activations, ROWS * INPUTS);
        let integers = grown(integers, rows * padded);
        let floats = grown(floats, rows * padded);
        integers.fill(0);
        floats.fill(0.0);
        for first in (0..inputs).step_by(INPUTS) {
            let block = first..(first + INPUTS).min(inputs);
            let seen = Seen { quads, windows, activations };
            match path {
                #[cfg(target_arch = "x86_64")]
                QuantizedPath::Avx512Vnni => super::vnni::prepare(&self, block.clone(), seen),
                #[cfg(target_arch = "x86_64")]
                QuantizedPath::Avx2 => super::quantized_avx2::prepare(&self, block.clone(), seen),
                _ => self.prepare(Portable, block.clone(), seen),
            }
            for outputs in tiles(outputs) {
                let width = outputs.len();
                let sums = outputs.start * rows..outputs.end * rows;
                let tile = Tile {
                    width,
                    count: block.len(),
                    intervals: self.geometry.grid().intervals(),
                    splines: self.splines_of(&outputs, &block),
                    base: self.base_of(&outputs, &block),
                    quads,
                    windows,
                    activations,
                };
                tile.run(path, &mut integers[sums.clone()], &mut floats[sums]);
            }
        }
        for outputs in tiles(outputs) {
            self.finish(outputs, rows, integers, floats, y);
        }
        for (x, y) in self.x.chunks_exact(inputs).zip(y.chunks_exact_mut(outputs)) {
            if x.iter().fold(false, |found, x| found | x.is_nan()) {
                y.fill(f32::NAN);
            }
        }
    }

    fn splines_of(&self, outputs: &Range<usize>, inputs: &Range<usize>) -> &[Coefficients] {
        let own = self.blocks_of(outputs, inputs);
        let windows = self.geometry.grid().intervals();
        &self.splines[own.start * windows..own.end * windows]
    }

    fn base_of(&self, outputs: &Range<usize>, inputs: &Range<usize>) -> &[BaseWeights] {
        if self.base.is_empty() { &[] } else { &self.base[self.blocks_of(outputs, inputs)] }
    }

    /// The blocks of outputs of some inputs, where an input has one of each.
    fn blocks_of(&self, outputs: &Range<usize>, inputs: &Range<usize>) -> Range<usize> {
        let first = outputs.start / BLOCK * self.geometry.in_features();
        let place = |input: usize| first + input * outputs.len() / BLOCK;
        place(inputs.start)..place(inputs.end)
    }

    /// What the samples see of some inputs.
    #[inline(always)]
    pub(super) fn prepare<S: Simd>(&self, simd: S, inputs: Range<usize>, seen: Seen<'_>) {
        let in_features = self.geometry.in_features();
        let rows = self.x.len() / in_features;
        let mut columns = [0.0; INPUTS * PITCH];
        for (row, x) in self.x.chunks_exact(in_features).enumerate() {
            for (index, &x) in x[inputs.clone()].iter().enumerate() {
                columns[index * PITCH + row] = x;
            }
        }
        let mut values = [0.0; 4 * PITCH];
        let (mut quads, mut windows, mut activations) = ([0; PITCH], [0; PITCH], [0.0; PITCH]);
        for (index, column) in columns.chunks_exact(PITCH).take(inputs.len()).enumerate() {
            let is_inside = self.uniform.has_all(simd, &column[..rows]);
            let column = &column[..rows.next_multiple_of(GROUP)];
            let (values, windows) = (&mut values, &mut windows);
            let bases = Bases { values, slopes: None, pitch: PITCH, windows };
            self.uniform.evaluate::<S, 4>(simd, is_inside, column, bases);
            if !self.base.is_empty() {
                let to = activations.chunks_exact_mut(S::LANES);
                for (x, to) in column.chunks_exact(S::LANES).zip(to) {
                    let x = simd.read(x);
                    simd.write(to, function::value(simd, self.geometry.activation(), x));
                }
            }
            let mut lines = values.chunks_exact(PITCH);
            let [one, two, three, four] =
                std::array::from_fn(|_| &lines.next().expect("a line a tap")[..rows]);
            let taps = one.iter().zip(two).zip(three.iter().zip(four));
            // Laid out in the order of `TAPS`.
            for (quad, ((one, two), (three, four))) in quads[..rows].iter_mut().zip(taps) {
                // NaN becomes some byte; its sample's outputs are NaN for another reason.
                let steps = |value: f32| (value * STEPS_OF_ONE + ROUNDER).to_bits() & 0xFF;
                *quad = steps(*one) | steps(*three) << 8 | steps(*two) << 16 | steps(*four) << 24;
            }
            for group in 0..rows.div_ceil(GROUP) {
                let own = group * GROUP..(group + 1) * GROUP;
                let place = (group * INPUTS + index) * GROUP;
                seen.quads[place..][..GROUP].copy_from_slice(&quads[own.clone()]);
                seen.windows[place..][..GROUP].copy_from_slice(&windows[own.clone()]);
                seen.activations[place..][..GROUP].copy_from_slice(&activations[own]);
            }
        }
    }

    /// Brings the sums of a tile to the outputs.
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
        let integers = integers[sums.clone()].chunks_exact(width);
        let lines = integers.zip(floats[sums].chunks_exact(width));
        let (units, bias) = (&self.units[known.clone()], &self.bias[known.clone()]);
        for ((integers, floats), y) in lines.zip(y.chunks_exact_mut(count)) {
            let sums = integers.iter().zip(floats);
            for (((y, (&integer, float)), unit), bias) in
                y[known.clone()].iter_mut().zip(sums).zip(units).zip(bias)
            {
                *y = bias + (float + unit * integer as f32);
            }
        }
    }
}

/// What samples see of some inputs, `[groups][INPUTS][GROUP]`.
pub(super) struct Seen<'a> {
    /// Four basis values of eight bits.
    pub(super) quads: &'a mut [u32],
    /// The windows that they belong to.
    pub(super) windows: &'a mut [u32],
    /// The base branch's function.
    pub(super) activations: &'a mut [f32],
}

/// Some inputs' share of a tile of outputs.
pub(super) struct Tile<'a> {
    /// Outputs.
    pub(super) width: usize,
    /// Inputs.
    pub(super) count: usize,
    pub(super) intervals: usize,
    /// `[inputs][intervals][blocks of the width]`.
    pub(super) splines: &'a [Coefficients],
    /// `[inputs][blocks of the width]`, or empty.
    pub(super) base: &'a [BaseWeights],
    /// As in [`Seen`].
    pub(super) quads: &'a [u32],
    /// As in [`Seen`].
    pub(super) windows: &'a [u32],
    /// As in [`Seen`].
    pub(super) activations: &'a [f32],
}

impl Tile<'_> {
    /// Adds to the sums, `[rows][width]`.
    fn run(&self, path: QuantizedPath, integers: &mut [i32], floats: &mut [f32]) {
        match path {
            #[cfg(target_arch = "x86_64")]
            QuantizedPath::Avx512Vnni => super::vnni::add(self, integers, floats),
            #[cfg(target_arch = "x86_64")]
            QuantizedPath::Avx2 => super::quantized_avx2::add(self, integers, floats),
            _ => self.add(integers, floats),
        }
    }

    fn add(&self, integers: &mut [i32], floats: &mut [f32]) {
        let lines = integers.chunks_exact_mut(self.width).zip(floats.chunks_exact_mut(self.width));
        for (row, (integers, floats)) in lines.enumerate() {
            for input in 0..self.count {
                let at = Self::place(row, input);
                let quad = self.quads[at].to_le_bytes();
                let (lanes, base) = self.weights(input, self.windows[at]);
                let lanes = lanes.iter().flat_map(|block| &block.0);
                for (sum, lane) in integers.iter_mut().zip(lanes) {
                    for (value, weight) in quad.into_iter().zip(lane) {
                        *sum += i32::from(value) * i32::from(*weight);
                    }
                }
                for (sum, weight) in floats.iter_mut().zip(base.iter().flat_map(|block| &block.0)) {
                    *sum += self.activations[at] * weight;
                }
            }
        }
    }

    /// Where what a sample sees of an input lies: beside the rest of its group, and [`GROUP`] before
    /// what it sees of the next input.
    #[inline(always)]
    pub(super) const fn place(row: usize, input: usize) -> usize {
        (row / GROUP * INPUTS + input) * GROUP + row % GROUP
    }

    /// An input's coefficients in a window, and its base weights.
    fn weights(&self, input: usize, window: u32) -> (&[Coefficients], &[BaseWeights]) {
        let blocks = self.width / BLOCK;
        let first = (input * self.intervals + window as usize) * blocks;
        let base = match self.base {
            [] => self.base,
            base => &base[input * blocks..(input + 1) * blocks],
        };
        (&self.splines[first..first + blocks], base)
    }
}
