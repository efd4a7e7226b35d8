//! The kernels of a KAN layer at the rates that a run measured of its card, and what limits them.

use updraft_kan::CubeForm;
use updraft_kan::roofline::{
    DeviceLimits, KernelCost, LeastTime, MultiprocessorLimits, least_time,
};

use crate::gpu::{self, Card, Gpu};
use crate::problem::{Pass, Problem};

/// The kernels of a strategy by the model of their cost, in the order in which they run.
pub(crate) struct Modelled {
    kernels: Vec<KernelCost>,
    limits: DeviceLimits,
    multiprocessor: Option<MultiprocessorLimits>,
}

impl Modelled {
    /// `None` for what is no KAN layer in our kernels, and for products whose rate was not measured.
    pub(crate) fn new(problem: &Problem, strategy: &str, card: &Gpu) -> Option<Self> {
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
        Some(Self { kernels, limits, multiprocessor: multiprocessor(&card.card) })
    }

    /// The time of the kernels at the card's rates.
    pub(crate) fn least(&self) -> LeastTime {
        least_time(&self.kernels, self.limits)
    }

    /// A line for each kernel of ours: its cubes, and how many of them a multiprocessor runs at a
    /// time, at most, as registers are not known; for cards whose limits are not known the size of
    /// its cubes.
    pub(crate) fn occupancy(&self) -> Vec<String> {
        let line = |kernel: &KernelCost| {
            let (name, cubes) = (kernel.name, kernel.cubes?);
            let count = cubes.count;
            Some(match self.multiprocessor {
                Some(limits) => {
                    let of = cubes.occupancy(limits, None);
                    format!("{name}: {count} cubes, {} at once by {}", of.cubes, of.limit)
                }
                None => format!(
                    "{name}: {count} cubes, {} threads, {} bytes each",
                    cubes.threads_per_cube, cubes.shared_bytes
                ),
            })
        };
        self.kernels.iter().filter_map(line).collect()
    }
}

/// The limits of a card that CubeCL's CUDA runtime describes, such as `ptx_sm90`.
fn multiprocessor(card: &Card) -> Option<MultiprocessorLimits> {
    let capability = card.target.as_deref()?.strip_prefix("ptx_sm")?.parse().ok()?;
    MultiprocessorLimits::of_compute_capability(capability)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_card_are_those_of_its_compute_capability() {
        let of = |target: Option<&str>| {
            multiprocessor(&Card {
                backend: "cuda".to_owned(),
                name: "a card".to_owned(),
                driver: None,
                target: target.map(str::to_owned),
                memory_bytes: None,
            })
        };
        assert_eq!(of(Some("ptx_sm90")), MultiprocessorLimits::of_compute_capability(90));
        assert!(of(Some("ptx_sm90")).is_some());
        for unknown in [None, Some("gfx90a"), Some("ptx_sm52"), Some("ptx_sm")] {
            assert_eq!(of(unknown), None);
        }
    }
}
