//! The algorithm of each convolution of a model.

use std::collections::HashMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use updraft_conv::slices::{Isa, Pass, Strategy};
use updraft_conv::{ObservedConvolution, observe_convolutions};
use updraft_trainer::{StepContext, Task, Tensors};

use crate::config::Plan;
use crate::task::Workload;

/// One pass of a convolution of a model, and its algorithm on a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelChoice {
    /// The path of the layer in the model, such as `stem.conv`.
    pub layer: String,
    /// The convolution, for one batch.
    pub convolution: ObservedConvolution,
    /// The pass.
    pub pass: Pass,
    /// The algorithm, with its instructions and the reason.
    pub strategy: Strategy,
}

/// The algorithms of a workload's model for a training batch, layer by layer in the order of the
/// forward pass.
pub(super) fn kernels<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
) -> Vec<KernelChoice> {
    device.seed(plan.seed);
    let model = plan.precision.autocast(workload.init(device));
    let (input, _) = workload.task().example(plan.train.batch, device);
    let input = input.cast_floats(plan.precision.compute);
    let forward = || drop(workload.task().forward(&model, input, &StepContext::evaluation()));
    let ((), observed) = plan.precision.scope(|| observe_convolutions(forward));
    let names = layer_names(&model);
    let isa = Isa::detect();
    let choices = observed.into_iter().map(|convolution| {
        let layer = names.get(&convolution.weight.val()).cloned().unwrap_or_default();
        Pass::ALL.map(|pass| KernelChoice {
            layer: layer.clone(),
            convolution: convolution.clone(),
            pass,
            strategy: convolution.strategy(isa, pass),
        })
    });
    choices.flatten().collect()
}

/// The path of the layer that owns each parameter of a model, by the parameter's identifier.
pub(crate) type LayerNames = HashMap<u64, String>;

/// The names of the layers of a model.
pub(crate) fn layer_names(model: &impl Module) -> LayerNames {
    let mut names = Names::default();
    model.visit(&mut names);
    names.of
}

/// Collects the layers that own parameters.
#[derive(Default)]
struct Names {
    path: Vec<String>,
    of: LayerNames,
}

impl ModuleVisitor for Names {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // The last name is the name of the parameter itself.
        let layer = self.path.split_last().map_or(&[][..], |(_, layer)| layer);
        self.of.insert(param.id.val(), layer.join("."));
    }
}
