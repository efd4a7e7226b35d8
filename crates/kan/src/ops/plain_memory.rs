//! The memory of the plain path, computed before it runs.

use crate::kernels::{Isa, LayerGeometry, LayerMemory, Weights};

/// Bytes of the plain path on flex in f32, for a batch of so many samples.
///
/// The scratch of the passes is burn's peak memory without outputs and gradients: forward
/// without autodiff, backward with everything that autodiff has kept for it. A plane is one
/// number for each sample and input:
///
/// - forward, the recursion's first step holds four tensors of a plane for each span, three of
///   them one span shorter;
/// - backward, each further step has kept the values that it read and two factors for each of its
///   bases, the product has kept the bases, and its gradient and the two that it splits into exist
///   at the same time; with many outputs, the sum of splines and base branch takes more.
pub(crate) fn memory(geometry: &LayerGeometry, weights: &Weights<'_>, batch: usize) -> LayerMemory {
    // The part that does not depend on the path.
    let common = LayerMemory::of(Isa::Portable, geometry, weights, batch, 1);
    let (grid, plane) = (geometry.grid(), size_of::<f32>() * batch * geometry.in_features());
    let (degree, bases) = (grid.degree(), grid.bases());
    let spans = bases + degree;
    let spline = size_of::<f32>() * geometry.edges() * bases;
    let scaled = if weights.scaler.is_some() { spline } else { 0 };
    let base = usize::from(weights.base.is_some());
    let recursion = scaled + plane * (3 * (spans - 1) + 1);
    let product = scaled + plane * bases + common.outputs;
    // Both products and their sum.
    let sum = base * (plane + 3 * common.outputs);
    let kept: usize = spans + (2..=degree).map(|order| 3 * (spans - order) + 1).sum::<usize>();
    let kept = plane * (kept + bases);
    let gradients = plane * (2 * bases + 2 * base + 1) + 2 * spline + common.outputs;
    let forward = recursion.max(product).max(sum);
    let training = kept + gradients.max(sum + scaled);
    LayerMemory {
        forward_scratch: forward.saturating_sub(common.outputs),
        backward_scratch: training.saturating_sub(common.outputs + common.gradients),
        packed: 0,
        ..common
    }
}
