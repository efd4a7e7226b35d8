//! The division of a pass into parts whose values fit into memory.

use super::{UNITS, pairs_of_cube};
use crate::kernels::cube_cost::{CubeLayer, Cubes, Pass};

/// Bytes of the values in memory at a time, at most, unless one sample or input has more.
const PART_BYTES: usize = 256 << 20;

/// Samples of a part are a multiple, so that each part of the outputs begins where devices allow a
/// buffer to begin.
const SAMPLES: usize = 64;

/// Samples of a part of the forward pass, but for the last.
pub(crate) fn samples_of_part(layer: CubeLayer, inputs: usize, number_bytes: usize) -> usize {
    within(inputs * layer.rows() * number_bytes).max(SAMPLES) / SAMPLES * SAMPLES
}

/// Inputs of a part of the backward pass, but for the last.
pub(crate) fn inputs_of_part(layer: CubeLayer, batch: usize, number_bytes: usize) -> usize {
    within(batch * layer.rows() * number_bytes)
}

/// Samples or inputs of a part, of which each has this many bytes of values.
fn within(bytes: usize) -> usize {
    (PART_BYTES / bytes).max(1)
}

/// The parts of a pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    /// Samples or inputs of all parts.
    all: u64,
    /// Those of a part, but for the last.
    most: u64,
    /// Inputs of a sample, or samples of an input.
    pairs_of_one: u64,
    /// Bytes of a number of the matrices.
    number_bytes: usize,
}

impl Parts {
    /// Those of the forward pass.
    pub(crate) fn of_samples(pass: Pass, number_bytes: usize) -> Self {
        let Pass { layer, batch, inputs, .. } = pass;
        let most = samples_of_part(layer, inputs as usize, number_bytes) as u64;
        Self { all: batch, most, pairs_of_one: inputs, number_bytes }
    }

    /// Those of the backward pass.
    pub(crate) fn of_inputs(pass: Pass, number_bytes: usize) -> Self {
        let Pass { layer, batch, inputs, .. } = pass;
        let most = inputs_of_part(layer, batch as usize, number_bytes) as u64;
        Self { all: inputs, most, pairs_of_one: batch, number_bytes }
    }

    pub(crate) fn count(self) -> u64 {
        self.all.div_ceil(self.most)
    }

    /// Bytes of a number of the matrices.
    pub(super) fn number_bytes(self) -> u64 {
        self.number_bytes as u64
    }

    /// The cubes of a kernel that takes a unit for each pair of a sample and an input.
    pub(super) fn cubes_of_pairs(self, layer: CubeLayer) -> Cubes {
        let pairs = u64::from(pairs_of_cube(layer, self.number_bytes));
        let of_part = |part: u64| (part * self.pairs_of_one).div_ceil(pairs);
        Cubes {
            count: self.all / self.most * of_part(self.most) + of_part(self.all % self.most),
            threads_per_cube: UNITS,
            shared_bytes: pairs * layer.rows() as u64 * self.number_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_at_most_their_bytes_and_are_as_few_as_possible() {
        let layer = CubeLayer::cubic(20);
        // 24 rows of 512 inputs in f32: 5461 samples, of which 5440 are a multiple of 64.
        assert_eq!(samples_of_part(layer, 512, 4), 5440);
        assert_eq!(samples_of_part(layer, 512, 2), 10_880);
        // 24 rows of 8192 samples in f32: 341 inputs.
        assert_eq!(inputs_of_part(layer, 8192, 4), 341);
        // A sample, or an input, has more.
        assert_eq!(samples_of_part(layer, 1 << 24, 4), 64);
        assert_eq!(inputs_of_part(layer, 1 << 24, 4), 1);
        let pass = Pass { layer, batch: 8192, inputs: 512, outputs: 1, images: None };
        let parts = [Parts::of_samples(pass, 4), Parts::of_inputs(pass, 4)];
        assert_eq!(parts.map(Parts::count), [2, 2]);
        // 170 pairs of 24 rows in f32 are 16,320 bytes.
        let cubes = parts.map(|parts| parts.cubes_of_pairs(layer));
        let of_samples = (5440 * 512_u64).div_ceil(170) + (2752 * 512_u64).div_ceil(170);
        let of_inputs = (341 * 8192_u64).div_ceil(170) + (171 * 8192_u64).div_ceil(170);
        assert_eq!(cubes.map(|cubes| cubes.count), [of_samples, of_inputs]);
        assert_eq!(cubes[0].shared_bytes, 16_320);
    }
}
