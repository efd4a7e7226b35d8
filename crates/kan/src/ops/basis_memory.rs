//! The memory of a layer of functions in closed form on the plain path, computed before it runs.

use crate::basis::Basis;
use crate::kernels::{BasisParts, LayerMemory};

const FLOAT: usize = size_of::<f32>();

/// Bytes of the plain path on flex in f32, for a batch of so many samples.
///
/// The scratch of the passes is burn's peak memory without outputs and gradients: forward
/// without autodiff, backward with everything that autodiff has kept for it. A plane is one number
/// for each sample and input:
///
/// - forward, all functions are there twice when they are joined; with many outputs, the products of
///   functions and base branch and their sum take more;
/// - backward, the gradient of all values splits into those of each function beside what autodiff
///   has [kept](quarters); with many outputs, that sum takes more, before these gradients exist.
pub(crate) fn memory(
    basis: &Basis,
    [inputs, outputs]: [usize; 2],
    parts: BasisParts,
    batch: usize,
) -> LayerMemory {
    let (edges, count) = (inputs * outputs, basis.count());
    let [parameters, trained] = parts.parameters(edges, count, outputs);
    let (plane, y) = (FLOAT * batch * inputs, FLOAT * batch * outputs);
    // The input of the functions is there beside two parts of a single function.
    let values = plane * (2 * count).max(2 + usize::from(parts.seen));
    let sum = if parts.base { plane + 3 * y } else { 0 };
    let bias = if parts.bias { 2 * y } else { 0 };
    let forward = values.max(plane * count + 2 * y).max(sum).max(bias);
    let of_base = if parts.base { 2 * QUARTERS } else { 0 };
    let of_norm = if parts.seen { 2 * QUARTERS + 2 } else { 0 };
    let backward = quarters(basis, parts.is_trained) + of_base + of_norm;
    let kept = backward.saturating_sub(2 * QUARTERS * count);
    let sums = if parts.base { plane * kept / QUARTERS + 2 * y } else { 0 };
    LayerMemory {
        parameters: FLOAT * parameters,
        outputs: FLOAT * batch * outputs,
        packed: 0,
        gradients: FLOAT * (batch * inputs + trained),
        forward_scratch: forward.saturating_sub(y),
        backward_scratch: (plane * backward / QUARTERS + y).max(sums),
    }
}

/// Parts of a plane that are counted: a mask is a quarter.
const QUARTERS: usize = 4;

/// Quarters of planes at the peak of a backward pass without base branch and norm: what autodiff
/// keeps for each function in the form of [`Basis::values_of`], its gradients, and those of the
/// parameters if they are trained.
fn quarters(basis: &Basis, is_trained: bool) -> usize {
    let count = basis.count();
    let of_parameters = if is_trained { QUARTERS * count } else { 0 };
    match basis {
        Basis::Gaussian(_) | Basis::Rswaf(_) => 20 * count - 4 + of_parameters,
        Basis::MexicanHat(_) => 31 * count - 2 + of_parameters,
        Basis::Chebyshev { .. } | Basis::Legendre { .. } => (16 * count).saturating_sub(12),
        Basis::Fourier { .. } => 14 * count - 4,
        // One function of two polynomials.
        Basis::Rational => 62,
    }
}
