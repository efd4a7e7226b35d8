//! Tensors that forward passes change and optimizers do not: running statistics.

use std::collections::HashSet;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// A snapshot of the floating-point tensors of a training module that get no gradients.
///
/// Among them are the running statistics of batch norms, which every forward pass in training
/// moves, and which clones of a module share.
#[derive(Debug)]
pub(crate) struct Buffers(Tensors);

/// Tensors of any rank by the id of their parameter.
type Tensors = GradientsParams;

impl Buffers {
    /// Takes a snapshot of a module's buffers; tensors are shared, not copied.
    pub(crate) fn of<M: Module>(module: &M) -> Self {
        // burn applies pending statistics at the next forward pass or in `valid`.
        drop(module.valid());
        let mut tensors = Tensors::new();
        module.visit(&mut Collect { learned: false, tensors: &mut tensors });
        Self(tensors)
    }

    /// Restores the values in place.
    pub(crate) fn restore<M: Module>(self, module: M) -> M {
        // A pending update would overwrite the restored values.
        drop(module.valid());
        let mut put = Put(self.0);
        module.map(&mut put)
    }
}

/// The ids of the tensors that an optimizer updates; `module` is on an autodiff device.
pub(crate) fn learned<M: Module>(module: &M) -> HashSet<ParamId> {
    let mut ids = Ids(HashSet::new());
    module.visit(&mut ids);
    ids.0
}

/// The stored values of all floating-point tensors of a module.
pub(crate) fn tensors<M: Module>(module: &M) -> Tensors {
    let mut tensors = Tensors::new();
    module.visit(&mut Collect { learned: true, tensors: &mut tensors });
    tensors
}

struct Collect<'a> {
    learned: bool,
    tensors: &'a mut Tensors,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.base();
        if self.learned || !tensor.is_require_grad() {
            self.tensors.register(param.id, tensor);
        }
    }
}

struct Put(Tensors);

impl ModuleMapper for Put {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.0.remove::<D>(param.id) {
            Some(tensor) => {
                let (id, _, mapper) = param.consume();
                Param::from_mapped_value(id, tensor, mapper)
            }
            None => param,
        }
    }
}

struct Ids(HashSet<ParamId>);

impl ModuleVisitor for Ids {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.base().is_require_grad() {
            self.0.insert(param.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNorm, BatchNormConfig};
    use updraft_testing::{assert_close, autodiff_devices, tolerance};

    use super::*;

    #[test]
    fn restored_statistics_are_those_before_the_forward_pass() {
        for device in autodiff_devices() {
            let norm: BatchNorm = BatchNormConfig::new(1).init(&device);
            let input = Tensor::<2>::from_floats([[1.0], [5.0]], &device);
            norm.forward(input.clone());
            let before = norm.valid().running_mean.value();
            let remembered = Buffers::of(&norm);
            norm.forward(input);
            assert!(norm.valid().running_mean.value().into_data() != before.to_data());
            let norm = remembered.restore(norm);
            assert_close(&norm.valid().running_mean.value(), &before, tolerance::EXACT);
            assert_close(&norm.running_mean.value_sync(), &before, tolerance::EXACT);
        }
    }

    #[test]
    fn weights_are_learned_and_statistics_are_not() {
        for device in autodiff_devices() {
            let norm: BatchNorm = BatchNormConfig::new(1).init(&device);
            assert_eq!(learned(&norm), HashSet::from([norm.gamma.id, norm.beta.id]));
            assert_eq!(tensors(&norm).len(), 4);
        }
    }
}
