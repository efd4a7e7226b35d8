//! The cost of what convolutions compute beside the passes of linear layers.

use super::pass::FLOAT;
use super::{Cubes, KernelCost, Pass};

/// Rows, the pixels of outputs, that a launch of the gradients of weights or of the bias adds: longer
/// sums in f32 would lose digits. A multiple of the samples that any form takes at a time.
pub(crate) const ROWS_OF_SUM: usize = 1 << 16;

/// Units of a cube that computes a number each.
pub(crate) const UNITS: u32 = 256;

/// The sums of the gradients of parts, for so many groups of channels; `None` if there is one part.
pub(crate) fn addition_cost(pass: Pass, groups: u64) -> Option<KernelCost> {
    let added = pass.parts_of_sum() - 1;
    let edges = groups * pass.inputs * pass.outputs;
    let (spline, base) = (pass.bases() * edges, pass.base_rows() * edges);
    let bias = u64::from(pass.layer.has_bias) * groups * pass.outputs;
    let numbers = spline + base + bias;
    let units = u64::from(UNITS);
    (added > 0).then(|| KernelCost {
        name: "total_plus_part",
        launches: added * (1 + pass.base_rows() + u64::from(pass.layer.has_bias)),
        bytes_read: added * 2 * FLOAT * numbers,
        bytes_written: added * FLOAT * numbers,
        flops: added * numbers,
        cubes: Some(Cubes {
            count: added * [spline, base, bias].map(|of| of.div_ceil(units)).iter().sum::<u64>(),
            threads_per_cube: UNITS,
            shared_bytes: 0,
        }),
    })
}
