//! The cost of the sparse gradient of the input.

use crate::kernels::cube_cost::pass::FLOAT;
use crate::kernels::cube_cost::tiles::{LANES, MOST_UNITS, SHARED_BYTES};
use crate::kernels::cube_cost::{CubeLayer, Cubes, KernelCost, Pass};

/// Inputs of a tile, one for each group of `LANES` units.
pub(crate) const INPUTS: u32 = 8;
/// Samples of a tile, one for each unit of a group.
pub(crate) const SAMPLES: u32 = LANES;
/// Units of a cube.
pub(crate) const UNITS: u32 = SAMPLES * INPUTS;
const _: () = assert!(UNITS <= MOST_UNITS);

/// Whether the weights of a tile's inputs are in shared memory, and for how many outputs at a time.
pub(crate) fn staged_outputs(layer: CubeLayer) -> (bool, u32) {
    let floats = SHARED_BYTES / size_of::<f32>();
    let lines = INPUTS as usize * layer.rows() + SAMPLES as usize;
    let fitting = [16, 8, 4].into_iter().find(|&columns| lines * (columns as usize + 1) <= floats);
    (fitting.is_some(), fitting.unwrap_or(16))
}

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { layer, outputs, .. } = pass;
    let (batch, inputs, window_taps) = pass.of_input_gradient();
    let [of_cube, samples, units] = [INPUTS, SAMPLES, UNITS].map(u64::from);
    let (is_staged, columns) = staged_outputs(layer);
    let (columns, pitch) = (u64::from(columns), u64::from(columns) + 1);
    let products = 2 * outputs * units * (pass.taps() + pass.base_rows());
    let (coefficients, of_weights) = if is_staged {
        let coefficients = of_cube * pass.bases() * outputs.next_multiple_of(columns);
        (coefficients, of_cube * pass.rows() * pitch)
    } else {
        (units * pass.taps() * outputs, 1)
    };
    let slopes = units * pass.slope_flops();
    let count = inputs.div_ceil(of_cube) * batch.div_ceil(samples);
    KernelCost {
        name: "gradient_of_input",
        launches: 1,
        bytes_read: pass.x_bytes() + pass.knot_bytes() + pass.weight_bytes() + pass.y_bytes(),
        bytes_written: pass.x_bytes(),
        flops: count * (window_taps * (products + pass.factor_flops(coefficients)) + slopes),
        cubes: Some(Cubes {
            count,
            threads_per_cube: UNITS,
            shared_bytes: FLOAT * (samples * pitch + of_weights),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_holds_the_weights_of_as_many_outputs_as_fit() {
        let staged =
            [5, 20, 48, 49, 94, 95].map(|intervals| staged_outputs(CubeLayer::cubic(intervals)));
        let expected = [(true, 16), (true, 16), (true, 8), (true, 4), (true, 4), (false, 16)];
        assert_eq!(staged, expected);
    }
}
