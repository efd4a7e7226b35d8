//! The cost of the sparse forward pass.

use crate::kernels::cube_cost::pass::FLOAT;
use crate::kernels::cube_cost::tiles::{LANES, MOST_UNITS, SHARED_BYTES};
use crate::kernels::cube_cost::{CubeLayer, Cubes, KernelCost, Pass};

/// Groups of `LANES` units; a group takes every eighth sample.
pub(crate) const GROUPS: u32 = 8;
/// Samples of a tile.
pub(crate) const SAMPLES: u32 = 32;
/// Outputs of a tile.
pub(crate) const OUTPUTS: u32 = 64;
/// Inputs whose bases are evaluated at a time.
pub(crate) const INPUTS: u32 = 8;
/// Numbers evaluated at a time, one by each unit.
pub(crate) const EVALUATED: usize = (SAMPLES * INPUTS) as usize;
const _: () = assert!(EVALUATED == (LANES * GROUPS) as usize && LANES * GROUPS <= MOST_UNITS);

/// The inputs whose weights are in shared memory at a time: a power of two, or 0 if those of one do
/// not fit there.
pub(crate) fn staged_inputs(layer: CubeLayer) -> usize {
    let evaluated = EVALUATED * (2 + layer.taps());
    let left = SHARED_BYTES / size_of::<f32>() - evaluated;
    let fitting = left / (layer.rows() * OUTPUTS as usize);
    [8, 4, 2, 1].into_iter().find(|&inputs| inputs <= fitting).unwrap_or(0)
}

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { layer, batch, inputs, outputs, .. } = pass;
    let [samples, columns, at_once] = [SAMPLES, OUTPUTS, INPUTS].map(u64::from);
    let staged = staged_inputs(layer) as u64;
    let products = 2 * inputs * samples * columns * (pass.taps() + pass.base_rows());
    let values = inputs.next_multiple_of(at_once) * samples * pass.value_flops();
    let coefficients = match staged {
        0 => inputs * samples * columns * pass.taps(),
        _ => inputs * columns * pass.bases(),
    };
    let count = outputs.div_ceil(columns) * batch.div_ceil(samples);
    let of_weights = (staged * pass.rows() * columns).max(1);
    KernelCost {
        name: "layer_forward",
        launches: 1,
        bytes_read: pass.x_bytes() + pass.knot_bytes() + pass.weight_bytes() + pass.bias_bytes(),
        bytes_written: pass.y_bytes(),
        flops: count * (products + values + pass.factor_flops(coefficients)) + pass.bias_flops(),
        cubes: Some(Cubes {
            count,
            threads_per_cube: LANES * GROUPS,
            shared_bytes: FLOAT * (EVALUATED as u64 * (2 + pass.taps()) + of_weights),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_holds_the_weights_of_inputs_with_few_intervals() {
        let staged = [1, 5, 20, 36, 37].map(|intervals| staged_inputs(CubeLayer::cubic(intervals)));
        assert_eq!(staged, [8, 4, 1, 1, 0]);
    }
}
