//! The cost of the dense gradient of the input.

use super::UNITS;
use crate::kernels::cube_cost::pass::FLOAT;
use crate::kernels::cube_cost::{CubeLayer, Cubes, KernelCost, Pass};

/// Inputs of a cube.
pub(crate) const INPUTS: u32 = 8;
/// Groups of units along the samples.
pub(crate) const GROUPS: u32 = UNITS / INPUTS;
/// Outputs at a time.
pub(crate) const OUTPUTS: u32 = 16;
/// Sums of a unit, at most.
const SUMS: u32 = 96;

/// Samples of a unit: its sums stay in registers.
pub(crate) fn samples_of_a_unit(layer: CubeLayer) -> u32 {
    let rows = layer.rows() as u32;
    [8, 4].into_iter().find(|samples| samples * rows <= SUMS).unwrap_or(2)
}

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { layer, outputs, .. } = pass;
    let (batch, inputs, taps) = pass.of_input_gradient();
    let [of_cube, at_once] = [INPUTS, OUTPUTS].map(u64::from);
    let tile = u64::from(GROUPS * samples_of_a_unit(layer));
    // Sums for rows that fill a vector of four are computed, too.
    let rows = pass.rows().next_multiple_of(4);
    let products = 2 * taps * outputs.next_multiple_of(at_once) * of_cube * tile * rows;
    let factors = pass.factor_flops(taps * outputs * of_cube * pass.bases());
    let count = inputs.div_ceil(of_cube) * batch.div_ceil(tile);
    KernelCost {
        name: "dense_gradient_of_input",
        launches: 1,
        bytes_read: pass.x_bytes() + pass.weight_bytes() + pass.y_bytes(),
        bytes_written: pass.x_bytes(),
        flops: count * (products + factors) + batch * inputs * pass.slope_flops(),
        cubes: Some(Cubes {
            count,
            threads_per_cube: UNITS,
            // A column of padding follows the samples.
            shared_bytes: FLOAT * at_once * (tile + 1 + of_cube * rows),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_a_unit_stay_in_registers() {
        let samples =
            [5, 8, 20, 23, 28].map(|intervals| samples_of_a_unit(CubeLayer::cubic(intervals)));
        assert_eq!(samples, [8, 8, 4, 2, 2]);
    }
}
