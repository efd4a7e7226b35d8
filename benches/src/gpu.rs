//! Runs on a GPU: which strategies take part, and the card they ran on.

use anyhow::{Context, Result, bail};
use burn::tensor::{DType, Device};
use serde::{Deserialize, Serialize};
use updraft_device::{Backend, DeviceSpec, Facts, Selection, measure_dtypes, open, probe, select};

use updraft_kan::CubeForm;

use crate::problem::{Pass, Problem};
use crate::strategy::{Host, Role, Strategy};

/// Set for the peers' programs in runs on a GPU: they compute on PyTorch's.
pub(crate) const VARIABLE: &str = "UPDRAFT_BENCH_GPU";

/// The end of the names of peers with TF32 products, whose factors have 10 bits of fraction.
pub(crate) const TF32_SUFFIX: &str = "-tf32";

/// The end of the names of strategies with products of bf16.
pub(crate) const BF16_SUFFIX: &str = "-bf16";

/// The error that networks with products of bf16 may have: twice that of small ones in PyTorch.
pub(crate) const BF16_TOLERANCE: f64 = 5e-2;

/// A package of KAN layers, whose bases are differences of cubes; the start of names.
pub(crate) const FLASHKAN: &str = "flashkan";

/// Peers for KAN layers on a GPU: as efficient-kan computes them, eager and compiled, and flashkan.
const KAN_PEERS: [&str; 7] = [
    "pytorch",
    "pytorch-compiled",
    "pytorch-compiled-tf32",
    "pytorch-compiled-bf16",
    FLASHKAN,
    "flashkan-tf32",
    "flashkan-bf16",
];

/// Peers for networks on a GPU; where PyTorch compiles, launches are replayed as one graph.
const NETWORK_PEERS: [&str; 5] = [
    "pytorch",
    "pytorch-channels-last",
    "pytorch-compiled",
    "pytorch-compiled-tf32",
    "pytorch-compiled-bf16",
];

/// Peers for forward passes in f32.
const RUNTIME_PEERS: [&str; 2] = ["onnxruntime", "onnxruntime-tf32"];

/// A GPU backend of this build, by its name.
///
/// # Errors
/// If it is no GPU backend, is not compiled in, or reaches no device.
pub(crate) fn backend(name: &str) -> Result<Backend> {
    let spec: DeviceSpec = name.parse()?;
    let DeviceSpec::Exact { backend, index: None } = spec else {
        bail!("--device takes the name of a GPU backend, such as `cuda`; not `{name}`")
    };
    if matches!(backend, Backend::Flex | Backend::CubeclCpu) {
        bail!("--device takes a GPU backend; without it, the processor computes");
    }
    select(&spec, &probe())?;
    Ok(backend)
}

/// Our strategies on a backend: the kernels that we have there, and burn's operations.
pub(crate) fn ours(problem: &Problem, backend: Backend) -> Vec<Strategy> {
    let here = |id: String, role| Strategy { id, role, host: Host::Here };
    let (kernels, plain) = (format!("updraft-{backend}"), backend.to_string());
    match problem {
        Problem::KanLayer(_) => {}
        Problem::KanConv(_) | Problem::Int8Deep(_) | Problem::Int8DualPathway(_) => {
            return vec![here(kernels, Role::Dispatched), here(plain, Role::Baseline)];
        }
        _ => return vec![here(plain, Role::Dispatched)],
    }
    let mut strategies = vec![here(kernels, Role::Dispatched)];
    for (name, form) in FORMS {
        let is_of_bf16 = matches!(form, CubeForm::Bf16 | CubeForm::ExpandedBf16);
        let is_rounded = is_of_bf16 || form == CubeForm::Expanded;
        let role = if is_rounded { Role::Variant } else { Role::Forced };
        if !is_of_bf16 || has_bf16_cores(backend) {
            strategies.push(here(format!("updraft-{backend}-{name}"), role));
        }
    }
    strategies.push(here(plain, Role::Baseline));
    strategies
}

/// The forms of our kernels for KAN layers.
const FORMS: [(&str, CubeForm); 5] = [
    ("sparse", CubeForm::Sparse),
    ("dense", CubeForm::Dense),
    ("bf16", CubeForm::Bf16),
    ("expanded", CubeForm::Expanded),
    ("expanded-bf16", CubeForm::ExpandedBf16),
];

fn has_bf16_cores(backend: Backend) -> bool {
    let spec = DeviceSpec::Exact { backend, index: None };
    let facts = select(&spec, &probe()).ok().and_then(|selection| selection.facts);
    let mut dtypes = facts.into_iter().flat_map(|facts| facts.dtypes);
    dtypes.any(|facts| facts.dtype == "bf16" && facts.tensor_cores)
}

/// The form of this name.
pub(crate) fn form_named(name: &str) -> Option<CubeForm> {
    FORMS.into_iter().find(|(known, _)| *known == name).map(|(_, form)| form)
}

/// The backend of one of our strategies on GPUs, and the name of its form if it forces one, from what
/// follows `updraft`.
pub(crate) fn parsed(rest: &str) -> Option<(Backend, Option<&'static str>)> {
    let name = rest.strip_prefix('-')?;
    Backend::ALL.into_iter().find_map(|backend| {
        let form = name.strip_prefix(backend.name())?;
        if form.is_empty() {
            return Some((backend, None));
        }
        let form = form.strip_prefix('-')?;
        let (name, _) = FORMS.into_iter().find(|(known, _)| *known == form)?;
        Some((backend, Some(name)))
    })
}

/// The peers that compute a problem on a GPU.
pub(crate) fn peers(problem: &Problem) -> Vec<Strategy> {
    let of = |id: &str, script| Strategy {
        id: id.to_owned(),
        role: Role::Peer,
        host: Host::Python(script),
    };
    let runtime = || RUNTIME_PEERS.map(|id| of(id, "onnx_networks.py"));
    match problem {
        Problem::KanLayer(layer) => {
            let mut peers = KAN_PEERS.map(|id| of(id, "kan_layers.py")).to_vec();
            peers.extend(runtime().into_iter().filter(|_| layer.pass == Pass::Forward));
            peers
        }
        Problem::Matmul(_) => vec![of("pytorch", "pytorch.py")],
        Problem::TrainStep(_) => NETWORK_PEERS.map(|id| of(id, "pytorch.py")).to_vec(),
        Problem::DualPathwayInference(_) => {
            let peers = NETWORK_PEERS.map(|id| of(id, "pytorch.py"));
            peers.into_iter().chain(runtime()).collect()
        }
        Problem::Int8Deep(_) | Problem::Int8DualPathway(_) => {
            vec![of("onnxruntime", "onnx_runtime.py")]
        }
        _ => Vec::new(),
    }
}

/// A GPU with its measured rates, by burn's operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gpu {
    pub(crate) card: Card,
    /// Square matrix products by dtype, in 10⁹ operations per second.
    pub(crate) matmul_gflops: Vec<(String, f64)>,
    /// Bytes read plus bytes written, in 10⁹ per second.
    pub(crate) copy_gbytes_per_s: f64,
}

/// A card with its driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Card {
    pub(crate) backend: String,
    pub(crate) name: String,
    pub(crate) driver: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) memory_bytes: Option<u64>,
}

impl Gpu {
    /// Opens the backend's first device, and measures it; takes seconds.
    ///
    /// # Errors
    /// If the device cannot be opened, or stops computing.
    pub(crate) fn measure(backend: Backend) -> Result<Self> {
        let spec = DeviceSpec::Exact { backend, index: None };
        let Selection { id, name, facts, .. } = select(&spec, &probe())?;
        // Each dtype takes seconds of autotuning.
        let dtypes = [DType::F32, DType::BF16];
        let rates = measure_dtypes(&open(&select(&spec, &probe())?)?, &dtypes)?;
        let facts: Option<Facts> = facts;
        let fact = |of: fn(&Facts) -> Option<String>| facts.as_ref().and_then(of);
        let card = Card {
            backend: id.backend.to_string(),
            name: name.unwrap_or_else(|| "unknown".to_owned()),
            driver: fact(|facts| facts.driver.clone()),
            target: fact(|facts| facts.target.clone()),
            memory_bytes: facts.as_ref().and_then(|facts| facts.memory_total_bytes),
        };
        let products = rates.matmul.into_iter().map(|rate| (rate.dtype, rate.gflops.median));
        Ok(Self {
            card,
            matmul_gflops: products.collect(),
            copy_gbytes_per_s: rates.copy_gbytes_per_s.median,
        })
    }

    /// The rate of f32 products, which shares of a peak refer to.
    pub(crate) fn f32_gflops(&self) -> f64 {
        self.gflops("f32").unwrap_or(f64::NAN)
    }

    /// The rate of the products of a dtype, if it was measured.
    pub(crate) fn gflops(&self, dtype: &str) -> Option<f64> {
        self.matmul_gflops.iter().find(|(of, _)| of == dtype).map(|(_, rate)| *rate)
    }
}

/// Bytes that the allocator of a device has reserved, its caches included; `None` for devices that
/// use the memory of the process.
///
/// # Errors
/// If the device stops computing.
pub(crate) fn reserved_bytes(device: &Device) -> Result<Option<u64>> {
    device.sync().context("waiting for the device")?;
    Ok(device.memory_pool_usage().map(|usage| usage.bytes_reserved))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    fn ids(entry: &str, of: fn(&Problem) -> Vec<Strategy>) -> Vec<String> {
        let entry = catalog::entries().into_iter().find(|known| known.id == entry);
        let strategies = of(&entry.expect("an entry").problem);
        strategies.into_iter().map(|strategy| strategy.id).collect()
    }

    #[test]
    fn peers_of_kan_layers_are_eager_and_compiled_in_three_arithmetics() {
        let training = ids("kan/training-b256-512to512-g20", peers);
        assert_eq!(training, KAN_PEERS);
        let forward = ids("kan/forward-b256-512to512-g20", peers);
        assert_eq!(forward, [&KAN_PEERS[..], &RUNTIME_PEERS].concat());
    }

    #[test]
    fn int8_networks_are_our_kernels_beside_f32_and_onnxruntime() {
        let entry = "quant/resnet18-b1";
        let on_wgpu = |problem: &Problem| ours(problem, Backend::Wgpu);
        assert_eq!(ids(entry, on_wgpu), ["updraft-wgpu", "wgpu"]);
        assert_eq!(ids(entry, peers), ["onnxruntime"]);
    }
}
