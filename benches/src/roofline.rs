//! The time of a KAN layer's kernels at the rates that a run measured of its card.

use updraft_kan::CubeForm;
use updraft_kan::roofline::{DeviceLimits, LeastTime, least_time};

use crate::gpu::{self, Gpu};
use crate::problem::{Pass, Problem};

/// The time of a strategy's kernels by the model of their cost; `None` for what is no KAN layer in
/// our kernels, and for products whose rate was not measured.
pub(crate) fn least(problem: &Problem, strategy: &str, card: &Gpu) -> Option<LeastTime> {
    let Problem::KanLayer(layer) = problem else { return None };
    let (_, name) = gpu::parsed(strategy.strip_prefix("updraft")?)?;
    let (form, cost) = match name {
        Some(name) => {
            let form = gpu::form_named(name)?;
            (form, layer.cost(form)?)
        }
        // What the layer chooses for f32.
        None => {
            let mut forms = [CubeForm::Dense, CubeForm::Sparse].into_iter();
            forms.find_map(|form| Some((form, layer.cost(form)?)))?
        }
    };
    let dtype = match form {
        CubeForm::Bf16 | CubeForm::ExpandedBf16 => "bf16",
        CubeForm::F16 | CubeForm::ExpandedF16 => "f16",
        // burn's products, which on NVIDIA's cards are of TF32.
        _ => "f32",
    };
    let gflops = card.gflops(dtype)?;
    let limits =
        DeviceLimits { flops_per_s: 1e9 * gflops, bytes_per_s: 1e9 * card.copy_gbytes_per_s };
    let mut kernels = cost.forward;
    if layer.pass == Pass::Training {
        kernels.extend(cost.backward);
    }
    Some(least_time(&kernels, limits))
}
