//! Strategies: the implementations of a problem.

use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use updraft_conv::slices::Isa;
use updraft_device::{Backend, DeviceSpec, open as open_device, probe, select};

use crate::gpu;
use crate::problem::folded_network;
use crate::problem::int8_product::Tail;
use crate::problem::matmul::Number;
use crate::problem::optimizer::{Algorithm, OptimizerStep};
use crate::problem::{Pass, Problem};

/// The role of a strategy in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// burn's own operations where we have kernels.
    Baseline,
    /// The default for users of our crates.
    Dispatched,
    /// One of our paths, forced; `--assert` compares the dispatcher's choice with the best of them.
    Forced,
    /// The same computation in another build or in other numbers of ours, to be compared with.
    Variant,
    /// A program of another project.
    Peer,
}

/// A way to compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Strategy {
    pub(crate) id: String,
    pub(crate) role: Role,
    pub(crate) host: Host,
}

impl Strategy {
    /// The request to its program.
    pub(crate) fn asked(&self) -> &str {
        match &self.host {
            Host::Build { picks, .. } => picks,
            _ => &self.id,
        }
    }
}

/// The program that a strategy runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    /// This program.
    Here,
    /// This program, built with other features; it runs its own choice.
    Build { program: PathBuf, picks: &'static str },
    /// A script in the peers' environment.
    Python(&'static str),
    /// A package of its own, of this name.
    Package(&'static str),
}

impl Host {
    /// The name of a package of its own.
    pub(crate) fn package(&self) -> Option<&'static str> {
        match self {
            Self::Package(name) => Some(name),
            _ => None,
        }
    }
}

/// The choice of our kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernels {
    /// The backend's own operations.
    Burn,
    /// Our operation as a user calls it, with the path that it chooses.
    Ours,
    /// Our kernels on slices, on the path of this name.
    Forced(&'static str),
}

/// The name of the path that computes a problem of eight bits in f32.
pub(crate) const FLOATS: &str = "f32";

/// The instruction set of a name.
pub(crate) fn isa_named(name: &str) -> Result<Isa> {
    let isa = Isa::ALL.into_iter().find(|isa| isa.name() == name);
    isa.with_context(|| format!("this problem's kernels have no instruction set `{name}`"))
}

/// The name of KAN layers' eight bits among the paths: asked for, never picked.
pub(crate) const KAN_INT8: &str = "int8";

/// The name of KAN layers with products of bf16 among the paths: asked for, never picked.
pub(crate) const KAN_BF16: &str = "products-bf16";

/// The name of KAN layers whose weights were laid out before: asked for, never picked.
pub(crate) const KAN_PACKED: &str = "packed";

/// The name of the convolutions that compute every product where ours would leave some out.
pub(crate) const DIRECT: &str = "direct";

/// The training step that computes activations a second time.
pub(crate) const RECOMPUTE: &str = "recompute";

/// A plain linear layer of a KAN layer's expanded width.
pub(crate) const EXPANDED_LINEAR: &str = "pytorch-linear";

/// A layer of Gaussians instead of splines.
pub(crate) const GAUSSIANS: &str = "pytorch-gaussians";

/// A plain convolution of a spline convolution's expanded channels.
pub(crate) const EXPANDED_CONV: &str = "pytorch-conv";

/// Peers for convolutions of splines; the last one computes a lower bound.
const KAN_CONV_PEERS: [&str; 5] =
    ["pytorch", "pytorch-compiled", "pytorch-unfold", "pytorch-loop", EXPANDED_CONV];

/// Peers for layers and convolutions of functions in closed form.
const KAN_BASIS_PEERS: [&str; 2] = ["pytorch", "pytorch-compiled"];

/// Peers for transformers: with explicit weights, with PyTorch's fused attention, and that compiled.
const TRANSFORMER_PEERS: [&str; 3] = ["pytorch", "pytorch-fused", "pytorch-compiled"];

/// Peers for KAN layers; two of them compute common alternatives.
const KAN_PEERS: [&str; 5] = ["pytorch", "pytorch-compiled", GAUSSIANS, EXPANDED_LINEAR, "pykan"];

/// Peers for networks: PyTorch in both layouts, and compiled.
const NETWORK_PEERS: [&str; 3] = ["pytorch", "pytorch-channels-last", "pytorch-compiled"];

/// Peers for tables.
const TABLE_PEERS: [&str; 2] = ["pandas", "polars"];

/// Peers for networks of tables.
const TABLE_NETWORK_PEERS: [&str; 2] = ["pytorch", "pytorch-compiled"];

/// The strategies of this build for a problem.
pub(crate) fn ours(problem: &Problem) -> Vec<Strategy> {
    let here = |id: &str, role| Strategy { id: id.to_owned(), role, host: Host::Here };
    let paths = sets(problem);
    let has_kernels = !paths.is_empty() || is_ours_on_tensors(problem);
    let mut strategies = Vec::new();
    if has_kernels || !is_on_tensors(problem) {
        strategies.push(here("updraft", Role::Dispatched));
        strategies.extend(paths.iter().map(|path| here(&format!("updraft-{path}"), Role::Forced)));
    }
    if matches!(problem, Problem::KanLayer(layer) if layer.pass == Pass::Forward) {
        for form in [KAN_PACKED, KAN_INT8] {
            strategies.push(here(&format!("updraft-{form}"), Role::Variant));
        }
    }
    if matches!(problem, Problem::KanLayer(layer) if layer.multiplies_bf16()) {
        strategies.push(here(&format!("updraft-{KAN_BF16}"), Role::Variant));
    }
    if matches!(problem, Problem::Conv2d(of) if of.is_winograd()) {
        strategies.push(here(&format!("updraft-{DIRECT}"), Role::Variant));
    }
    if matches!(problem, Problem::UNet(of) if of.pass == Pass::Training) {
        strategies.push(here(&format!("updraft-{RECOMPUTE}"), Role::Variant));
    }
    if matches!(problem, Problem::FoldedNetwork(_)) {
        let forms = folded_network::FORMS.iter();
        strategies.extend(forms.map(|(form, _)| here(&format!("updraft-{form}"), Role::Variant)));
    }
    if matches!(
        problem,
        Problem::Int8Network(_)
            | Problem::Int8Deep(_)
            | Problem::Int8DualPathway(_)
            | Problem::Int8Layer(_)
    ) {
        strategies.push(here(&format!("updraft-{FLOATS}"), Role::Variant));
    }
    if is_on_tensors(problem) {
        strategies.push(here("flex", if has_kernels { Role::Baseline } else { Role::Dispatched }));
        let gpus = if is_on_a_device(problem) { gpus() } else { &[] };
        strategies.extend(gpus.iter().map(|backend| here(backend, Role::Baseline)));
    }
    strategies
}

/// Whether a problem is computed by a device; files are read and decoded by the processor.
fn is_on_a_device(problem: &Problem) -> bool {
    !matches!(
        problem,
        Problem::Decode(_) | Problem::Photos(_) | Problem::Gather(_) | Problem::ReadTable(_)
    )
}

/// The GPU backends of this build that reach an adapter, one emulated on the processor included.
fn gpus() -> &'static [String] {
    static FOUND: LazyLock<Vec<String>> = LazyLock::new(|| {
        let inventory = probe();
        let gpus = Backend::ALL.into_iter().filter(|backend| {
            let of_the_processor = matches!(backend, Backend::Flex | Backend::CubeclCpu);
            let spec = DeviceSpec::Exact { backend: *backend, index: None };
            !of_the_processor && select(&spec, &inventory).is_ok()
        });
        gpus.map(|backend| backend.to_string()).collect()
    });
    &FOUND
}

/// The choice of another build for a problem.
pub(crate) fn variant(problem: &Problem, id: &str, program: &std::path::Path) -> Strategy {
    let is_burns =
        sets(problem).is_empty() && is_on_tensors(problem) && !is_ours_on_tensors(problem);
    let picks = if is_burns { "flex" } else { "updraft" };
    let host = Host::Build { program: program.to_owned(), picks };
    Strategy { id: id.to_owned(), role: Role::Variant, host }
}

/// Whether we have an operation on burn's tensors for a problem, and no kernels on slices for it.
fn is_ours_on_tensors(problem: &Problem) -> bool {
    matches!(problem, Problem::VolumeLayer(_) | Problem::Optimizer(_) | Problem::Transformer(_))
}

/// The instruction sets that our kernels compute a problem with as it is on this CPU, fastest first.
fn sets(problem: &Problem) -> Vec<&'static str> {
    let there = |isas: &'static [Isa]| isas.iter().rev().filter(|isa| isa.is_available());
    match problem {
        Problem::Conv2d(_)
        | Problem::Conv3d(_)
        | Problem::BatchNorm(_)
        | Problem::FourBitProduct(_)
        | Problem::KanConv(_) => there(&Isa::BASES).map(|isa| isa.name()).collect(),
        // They take seconds on the portable set.
        Problem::KanBasis(_) | Problem::KanBasisConv(_) => {
            there(&Isa::BASES).filter(|isa| **isa != Isa::Portable).map(|isa| isa.name()).collect()
        }
        // A batch for GPUs takes the portable kernels a minute.
        Problem::KanLayer(layer) => there(&Isa::BASES)
            .filter(|isa| layer.batch <= 1024 || **isa != Isa::Portable)
            .map(|isa| isa.name())
            .collect(),
        Problem::Int8Product(_) => there(&Isa::DOTS).map(|isa| isa.name()).collect(),
        // A batch of images takes the portable kernels seconds; all other sets are compared with
        // them.
        Problem::Int8Network(_) => {
            there(&Isa::DOTS).filter(|isa| **isa != Isa::Portable).map(|isa| isa.name()).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether burn's tensors have an operation for a problem; what burn-candle lacks burn lacks too.
fn is_on_tensors(problem: &Problem) -> bool {
    match problem {
        Problem::Conv2d(convolution) => convolution.pass.is_on_tensors(),
        Problem::Conv3d(convolution) => convolution.pass.is_on_tensors(),
        // In f32 it is a strategy of ours.
        Problem::Int8Layer(_) | Problem::Int8Deep(_) | Problem::Int8DualPathway(_) => false,
        Problem::Calibrate(_) | Problem::PrepareTable(_) => false,
        _ => true,
    }
}

/// The peers that know a problem.
pub(crate) fn peers(problem: &Problem) -> Vec<Strategy> {
    let of = |id: &str, script| Strategy {
        id: id.to_owned(),
        role: Role::Peer,
        host: Host::Python(script),
    };
    let python = |id: &str| of(id, "pytorch.py");
    let package = |id: &str, name| Strategy {
        id: id.to_owned(),
        role: Role::Peer,
        host: Host::Package(name),
    };
    let candle = || package("candle", "candle");
    let both_layouts = || vec![python("pytorch"), python("pytorch-channels-last")];
    match problem {
        Problem::Conv3d(_) if !is_on_tensors(problem) => {
            NETWORK_PEERS[..2].iter().map(|id| of(id, "volumes.py")).collect()
        }
        Problem::DualAutoencoder(_) => {
            NETWORK_PEERS.map(|id| of(id, "dual_autoencoder.py")).to_vec()
        }
        Problem::Conv3d(_) | Problem::VolumeLayer(_) | Problem::UNet(_) | Problem::Sliding(_) => {
            NETWORK_PEERS.map(|id| of(id, "volumes.py")).to_vec()
        }
        Problem::DualPathwayInference(_) => NETWORK_PEERS.map(python).to_vec(),
        // A step on photographs takes burn-candle a minute.
        Problem::TrainStep(step) if step.network.side > 64 => NETWORK_PEERS.map(python).to_vec(),
        Problem::Conv2d(_) if !is_on_tensors(problem) => both_layouts(),
        Problem::Conv2d(_) | Problem::BatchNorm(_) | Problem::TrainStep(_) => {
            both_layouts().into_iter().chain([candle()]).collect()
        }
        Problem::PrepareTable(_) => TABLE_PEERS.map(|id| of(id, "tables.py")).to_vec(),
        Problem::TableStep(_) => TABLE_NETWORK_PEERS.map(|id| of(id, "table_networks.py")).to_vec(),
        Problem::Photos(_) => vec![python("pytorch"), python("pytorch-pillow")],
        Problem::KanLayer(_) => KAN_PEERS.map(|id| of(id, "kan_layers.py")).to_vec(),
        Problem::KanBasis(_) => KAN_BASIS_PEERS.map(|id| of(id, "kan_bases.py")).to_vec(),
        Problem::KanBasisConv(_) => {
            KAN_BASIS_PEERS.map(|id| of(id, "kan_basis_convolutions.py")).to_vec()
        }
        Problem::KanConv(_) => KAN_CONV_PEERS.map(|id| of(id, "kan_convolutions.py")).to_vec(),
        Problem::Matmul(matmul) if matmul.dtype == Number::F32 => {
            vec![python("pytorch"), candle()]
        }
        Problem::Transformer(_) => TRANSFORMER_PEERS.map(|id| of(id, "transformer.py")).to_vec(),
        Problem::Optimizer(OptimizerStep { algorithm: Algorithm::Sgd, .. }) => {
            vec![python("pytorch")]
        }
        Problem::Optimizer(_) => vec![python("pytorch"), candle()],
        Problem::Int8Product(product) => {
            let runtime = of("onnxruntime", "onnx_runtime.py");
            match product.tail {
                Tail::Sums => vec![runtime, package("rten-gemm", "rten")],
                Tail::Codes => vec![runtime, of("pytorch", "pytorch_int8.py")],
            }
        }
        Problem::Int8Layer(_) => vec![of("onnxruntime", "onnx_layers.py")],
        Problem::Int8Deep(_) | Problem::Int8DualPathway(_) => {
            vec![of("onnxruntime", "onnx_runtime.py")]
        }
        Problem::Int8Network(_) => {
            vec![of("onnxruntime", "onnx_runtime.py"), of("pytorch", "pytorch_int8.py")]
        }
        Problem::ReadTable(_)
        | Problem::Calibrate(_)
        | Problem::FourBitProduct(_)
        | Problem::FoldedNetwork(_) => Vec::new(),
        Problem::Matmul(_) | Problem::Decode(_) | Problem::Gather(_) => vec![python("pytorch")],
    }
}

/// Opens the device of one of our strategies and returns a description of its kernels.
pub(crate) fn open(id: &str) -> Result<(Device, Kernels, String)> {
    let (device, kernels) = match id.strip_prefix("updraft") {
        Some("") => ("flex", Kernels::Ours),
        Some(rest) if let Some((backend, form)) = gpu::parsed(rest) => {
            (backend.name(), form.map_or(Kernels::Ours, Kernels::Forced))
        }
        Some(rest) => {
            let names = Isa::ALL.map(Isa::name).into_iter();
            let mut names = names
                .chain([KAN_PACKED, KAN_INT8, KAN_BF16, FLOATS, DIRECT, RECOMPUTE])
                .chain(folded_network::FORMS.map(|(form, _)| form));
            let name = names.find(|name| rest.strip_prefix('-') == Some(name));
            ("flex", Kernels::Forced(name.with_context(|| format!("no strategy `{id}`"))?))
        }
        None => (id, Kernels::Burn),
    };
    let spec: DeviceSpec = device.parse().with_context(|| format!("no strategy `{id}`"))?;
    let selection = select(&spec, &probe())?;
    let device = open_device(&selection)?;
    let detected = Isa::detect();
    let flex = DeviceSpec::Exact { backend: Backend::Flex, index: None };
    let about = match kernels {
        Kernels::Burn => {
            let applied = updraft_device::applied(&device);
            format!("burn {}, {}", crate::machine::burn_version(), applied.device)
        }
        Kernels::Ours | Kernels::Forced(_) if spec != flex => {
            format!("our kernels for GPUs, {}", updraft_device::applied(&device).device)
        }
        Kernels::Ours => {
            format!("what we pick: {}, in eight bits {}", detected.base(), detected.dot())
        }
        Kernels::Forced(DIRECT) => {
            format!("our kernels on slices, {}, every product computed", detected.base())
        }
        Kernels::Forced(KAN_PACKED) => {
            format!("our layer with packed weights: {}", detected.base())
        }
        Kernels::Forced(RECOMPUTE) => "our step with recomputed activations".to_owned(),
        Kernels::Forced(FLOATS) => format!("our layers in f32: {}", detected.base()),
        Kernels::Forced(name) => {
            let mut forms = folded_network::FORMS.into_iter();
            let form = forms.find(|(form, _)| *form == name);
            form.map_or_else(
                || format!("our kernels on slices, {name}"),
                |(_, about)| about.to_owned(),
            )
        }
    };
    Ok((device, kernels, about))
}
