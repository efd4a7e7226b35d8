//! The values of samples for some inputs of a quantized layer: basis values in 8 bits, and the base
//! branch's function in 16 bits.

use std::ops::Range;

use updraft_simd::{MAX_LANES, Simd};

use super::bspline_uniform::Uniform;
use super::taps::gather;
use super::{GROUP, ROWS, function, pitch};
use crate::kernels::geometry::LayerGeometry;
use crate::kernels::quantized::TAPS;
use crate::kernels::scratch::{QuantizedSpace, grown};

/// Inputs that are prepared together. Even: the base branch takes them by pairs.
pub(crate) const INPUTS: usize = 64;

/// Steps of a basis value of 1: the largest possible value, 2/3, has 255.
pub(crate) const STEPS_OF_ONE: f32 = 382.5;

/// Steps of the greatest value of the base branch's function among a sample's [`INPUTS`].
const STEPS_OF_GREATEST: f32 = 8191.0;

/// Steps of an output's largest base weight: the sum over [`INPUTS`] has to fit into 32 bits.
pub(crate) const STEPS_OF_WEIGHT: f32 = 4095.0;

const _: () =
    assert!(STEPS_OF_GREATEST as u64 * STEPS_OF_WEIGHT as u64 * (INPUTS as u64) < 1 << 31);

/// Numbers from one input's line to the next.
const PITCH: usize = pitch(ROWS);

/// The values of some samples for at most [`INPUTS`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Of these.
    pub(super) count: usize,
    /// Four 8-bit basis values, `[groups][INPUTS][GROUP]`.
    pub(super) quads: &'a [u32],
    /// The windows that they belong to, in the same order.
    pub(super) windows: &'a [u32],
    /// The base branch's function of two inputs, `[groups][INPUTS / 2][GROUP]`.
    pub(super) pairs: &'a [u32],
    /// The value of one step of it, `[samples]`.
    pub(super) steps: &'a [f32],
}

impl Seen<'_> {
    /// The offset of a sample's values for an input: next to the rest of its group, and [`GROUP`]
    /// before those of the next input.
    #[inline(always)]
    pub(super) const fn place(row: usize, input: usize) -> usize {
        (row / GROUP * INPUTS + input) * GROUP + row % GROUP
    }

    /// The same of a pair of inputs.
    #[inline(always)]
    pub(super) const fn place_of_pair(row: usize, pair: usize) -> usize {
        (row / GROUP * (INPUTS / 2) + pair) * GROUP + row % GROUP
    }
}

/// How the samples of a layer are prepared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Preparation<'a> {
    pub(super) geometry: &'a LayerGeometry,
    pub(super) uniform: Uniform,
    pub(super) has_base: bool,
    pub(super) x: &'a [f32],
}

impl Preparation<'_> {
    /// Fills all but the sums of the space for at most [`INPUTS`].
    #[inline(always)]
    pub(super) fn run<S: Simd>(self, simd: S, inputs: Range<usize>, space: &mut QuantizedSpace) {
        let in_features = self.geometry.in_features();
        let rows = (self.x.len() / in_features).next_multiple_of(GROUP);
        let QuantizedSpace { columns, quads, windows, pairs, steps, .. } = space;
        let columns = grown(columns, INPUTS * PITCH);
        let quads = grown(quads, rows * INPUTS);
        let windows = grown(windows, rows * INPUTS);
        let pairs = grown(pairs, rows * INPUTS / 2);
        let steps = grown(steps, rows);
        for (line, x) in self.x.chunks(ROWS * in_features).enumerate() {
            gather(simd, x, in_features, inputs.clone(), columns, PITCH);
            let columns = &columns[..inputs.len() * PITCH];
            let (first, rows) = (line * ROWS, x.len() / in_features);
            let own = Seen::place(first, 0)..;
            self.splines(simd, columns, rows, &mut quads[own.clone()], &mut windows[own]);
            if self.has_base {
                let pairs = &mut pairs[Seen::place_of_pair(first, 0)..];
                self.base(simd, columns, rows, pairs, &mut steps[first..]);
            }
        }
    }

    /// The basis values of the samples of a line; unspecified for NaN.
    #[inline(always)]
    fn splines<S: Simd>(
        &self,
        simd: S,
        columns: &[f32],
        rows: usize,
        quads: &mut [u32],
        windows: &mut [u32],
    ) {
        for (input, column) in columns.chunks_exact(PITCH).enumerate() {
            let is_inside = self.uniform.has_all(simd, &column[..rows]);
            let (groups, _) = column.as_chunks::<GROUP>();
            for (group, x) in groups.iter().take(rows.div_ceil(GROUP)).enumerate() {
                let place = Seen::place(group * GROUP, input);
                let quads = quads[place..].first_chunk_mut().expect("a group of rows");
                let windows = windows[place..].first_chunk_mut().expect("a group of rows");
                self.uniform.quads(simd, is_inside, STEPS_OF_ONE, x, quads, windows);
                for quad in quads {
                    let [a, b, c, d] = quad.to_le_bytes();
                    *quad = u32::from_le_bytes(TAPS.map(|tap| [a, b, c, d][tap]));
                }
            }
        }
    }

    /// The base branch's function for the samples of a line, in separate steps for each sample.
    ///
    /// A sample with a value that is not finite has steps of NaN, and so have its outputs.
    #[inline(always)]
    fn base<S: Simd>(
        &self,
        simd: S,
        columns: &[f32],
        rows: usize,
        pairs: &mut [u32],
        steps: &mut [f32],
    ) {
        let [zero, most_steps] = [0.0, STEPS_OF_GREATEST].map(|number| simd.splat(number));
        let mut activations = [0.0; (INPUTS + 1) * MAX_LANES];
        for first in (0..rows).step_by(S::LANES) {
            let (mut greatest, mut spoiled) = (zero, zero);
            let lines = columns.chunks_exact(PITCH).zip(activations.chunks_exact_mut(S::LANES));
            for (column, to) in lines {
                let x = simd.read(&column[first..]);
                let value = function::value(simd, self.geometry.activation(), x);
                simd.write(to, value);
                let size = simd.larger(value, simd.subtract(zero, value));
                greatest = simd.larger(size, greatest);
                // Zero times a non-finite value is NaN.
                spoiled = simd.multiply_add(spoiled, value, zero);
            }
            let step = simd.add(simd.divide(greatest, most_steps), spoiled);
            simd.write(&mut steps[first..], step);
            // No value, or values so small that all are 0.
            let finite = simd.splat(f32::MAX);
            let factor = simd.smaller(simd.divide(most_steps, greatest), finite);
            let count = columns.len() / PITCH;
            // The missing input of the last pair.
            simd.write(&mut activations[count * S::LANES..][..S::LANES], zero);
            for pair in 0..count.div_ceil(2) {
                let even = simd.read(&activations[2 * pair * S::LANES..]);
                let odd = simd.read(&activations[(2 * pair + 1) * S::LANES..]);
                let steps = [simd.multiply(even, factor), simd.multiply(odd, factor)];
                simd.write_pairs(&mut pairs[Seen::place_of_pair(first, pair)..], steps);
            }
        }
    }
}
