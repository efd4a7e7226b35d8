//! A layer's outputs from coefficients of eight bits.

use std::ops::Range;

use super::{INPUTS, PITCH, ROWS, function};
use crate::basis::Uniform;
use crate::kernels::geometry::LayerGeometry;
use crate::kernels::quantized::{BLOCK, QuantizedPath, tiles};
use crate::kernels::scratch::{QuantizedSpace, grown};

/// Steps that a basis value of 1 would have: the largest one, 2/3, has 255.
pub(crate) const STEPS_OF_ONE: f32 = 382.5;

/// At most [`ROWS`] samples of a quantized layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantizedJob<'a> {
    pub(crate) geometry: &'a LayerGeometry,
    pub(crate) uniform: Uniform,
    pub(crate) splines: &'a [i8],
    /// Empty if there is no base branch.
    pub(crate) base: &'a [f32],
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
            self.prepare(block.clone(), quads, windows, activations);
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
            if x.iter().any(|x| x.is_nan()) {
                y.fill(f32::NAN);
            }
        }
    }

    fn splines_of(&self, outputs: &Range<usize>, inputs: &Range<usize>) -> &[i8] {
        let lanes = self.geometry.grid().intervals() * 4;
        let first = outputs.start * self.geometry.in_features();
        let place = |input: usize| (first + input * outputs.len()) * lanes;
        &self.splines[place(inputs.start)..place(inputs.end)]
    }

    fn base_of(&self, outputs: &Range<usize>, inputs: &Range<usize>) -> &[f32] {
        if self.base.is_empty() {
            return &[];
        }
        let first = outputs.start * self.geometry.in_features();
        let place = |input: usize| first + input * outputs.len();
        &self.base[place(inputs.start)..place(inputs.end)]
    }

    /// What the samples see of some inputs, `[rows][INPUTS]`: four basis values of eight bits,
    /// the window that they belong to, and the base branch's function.
    fn prepare(
        &self,
        inputs: Range<usize>,
        quads: &mut [u32],
        windows: &mut [u32],
        activations: &mut [f32],
    ) {
        let mut column = [0.0; ROWS];
        let mut values = [0.0; 4 * PITCH];
        let mut window = [0; ROWS];
        let rows = self.x.len() / self.geometry.in_features();
        for (index, input) in inputs.enumerate() {
            let numbers = self.x.iter().skip(input).step_by(self.geometry.in_features());
            for (place, &x) in column.iter_mut().zip(numbers) {
                *place = x;
            }
            let column = &column[..rows];
            self.uniform.evaluate::<4>(column, &mut values, None, PITCH, &mut window);
            for row in 0..rows {
                let step = |tap: usize| {
                    // NaN becomes 0; its sample's outputs are NaN for another reason.
                    let steps = values[tap * PITCH + row] * STEPS_OF_ONE + 0.5;
                    u32::from(steps as u8) << (8 * tap)
                };
                let at = row * INPUTS + index;
                quads[at] = step(0) | step(1) | step(2) | step(3);
                windows[at] = window[row];
            }
            if !self.base.is_empty() {
                function::values(self.geometry.activation(), column, &mut values);
                for row in 0..rows {
                    activations[row * INPUTS + index] = values[row];
                }
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
        for ((integers, floats), y) in lines.zip(y.chunks_exact_mut(count)) {
            for (column, output) in known.clone().enumerate() {
                let spline = self.units[output] * integers[column] as f32;
                y[output] = self.bias[output] + (floats[column] + spline);
            }
        }
    }
}

/// Some inputs' share of a tile of outputs.
pub(super) struct Tile<'a> {
    /// Outputs.
    pub(super) width: usize,
    /// Inputs.
    pub(super) count: usize,
    pub(super) intervals: usize,
    /// `[inputs][intervals][width][4]`.
    pub(super) splines: &'a [i8],
    /// `[inputs][width]`, or empty.
    pub(super) base: &'a [f32],
    /// `[rows][INPUTS]`.
    pub(super) quads: &'a [u32],
    /// `[rows][INPUTS]`.
    pub(super) windows: &'a [u32],
    /// `[rows][INPUTS]`.
    pub(super) activations: &'a [f32],
}

impl Tile<'_> {
    /// Adds to the sums, `[rows][width]`.
    fn run(&self, path: QuantizedPath, integers: &mut [i32], floats: &mut [f32]) {
        match path {
            #[cfg(target_arch = "x86_64")]
            QuantizedPath::Avx512Vnni => super::vnni::add(self, integers, floats),
            _ => self.add(integers, floats),
        }
    }

    fn add(&self, integers: &mut [i32], floats: &mut [f32]) {
        let lines = integers.chunks_exact_mut(self.width).zip(floats.chunks_exact_mut(self.width));
        for (row, (integers, floats)) in lines.enumerate() {
            for input in 0..self.count {
                let at = row * INPUTS + input;
                let quad = self.quads[at].to_le_bytes();
                let (lanes, base) = self.weights(input, self.windows[at]);
                for (sum, lane) in integers.iter_mut().zip(lanes.chunks_exact(4)) {
                    for (value, weight) in quad.into_iter().zip(lane) {
                        *sum += i32::from(value) * i32::from(*weight);
                    }
                }
                for (sum, weight) in floats.iter_mut().zip(base) {
                    *sum += self.activations[at] * weight;
                }
            }
        }
    }

    /// An input's coefficients in a window, `[width][4]`, and its base weights.
    #[inline(always)]
    pub(super) fn weights(&self, input: usize, window: u32) -> (&[i8], &[f32]) {
        let lane = (input * self.intervals + window as usize) * self.width * 4;
        let base = match self.base {
            [] => self.base,
            base => &base[input * self.width..(input + 1) * self.width],
        };
        (&self.splines[lane..lane + self.width * 4], base)
    }
}
