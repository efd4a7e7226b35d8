//! The cost of the sparse gradients of coefficients and base weights.

use crate::kernels::cube_cost::pass::FLOAT;
use crate::kernels::cube_cost::tiles::{LANES, SHARED_BYTES};
use crate::kernels::cube_cost::{CubeLayer, Cubes, KernelCost, Pass};

/// Groups of `LANES` units that share the samples.
pub(crate) const GROUPS: u32 = 4;
/// Outputs of a cube.
pub(crate) const OUTPUTS: u32 = LANES;
/// Samples whose bases are evaluated at a time, one by each unit.
pub(crate) const SAMPLES: u32 = LANES * GROUPS;

/// The bases of a window: as many as fit into shared memory.
pub(crate) fn window(layer: CubeLayer) -> u32 {
    let evaluated = SAMPLES as usize * (2 + layer.taps());
    let of_base = SAMPLES as usize;
    let left = SHARED_BYTES / size_of::<f32>() - evaluated - of_base;
    let most = left / SAMPLES as usize;
    let windows = layer.bases().div_ceil(most);
    layer.bases().div_ceil(windows) as u32
}

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { layer, batch, inputs, outputs, .. } = pass;
    let parts = pass.parts_of_sum();
    let [of_cube, at_once, groups] = [OUTPUTS, SAMPLES, GROUPS].map(u64::from);
    let window = u64::from(window(layer));
    let windows = pass.bases().div_ceil(window);
    // A cube multiplies all taps, and adds those of its window.
    let of_sample = windows * (pass.taps() + 2 * pass.base_rows()) + pass.taps();
    let values = windows * batch.next_multiple_of(at_once) * pass.value_flops();
    let tiles = outputs.div_ceil(of_cube) * inputs;
    let of_groups = inputs * outputs * groups * pass.rows();
    KernelCost {
        name: "gradient_of_weights",
        launches: parts,
        bytes_read: pass.x_bytes() + pass.knot_bytes() + pass.y_bytes(),
        bytes_written: parts * pass.row_bytes(),
        flops: tiles * (batch * of_cube * of_sample + values) + parts * of_groups,
        cubes: Some(Cubes {
            count: parts * tiles * windows,
            threads_per_cube: SAMPLES,
            // Positions, values, functions, and the sums of bases and of the base branch.
            shared_bytes: FLOAT * at_once * (1 + pass.taps() + 1 + window + 1),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_bases_are_equal_and_fit_into_shared_memory() {
        for (intervals, expected) in [(5, 8), (20, 23), (22, 25), (23, 13), (100, 21)] {
            let layer = CubeLayer { activation: None, ..CubeLayer::cubic(intervals) };
            let window = window(layer);
            assert_eq!(window, expected, "{intervals} intervals");
            let floats = SAMPLES as usize * (3 + layer.taps() + window as usize);
            assert!(floats * size_of::<f32>() <= SHARED_BYTES);
        }
    }
}
