//! Tensors that forward passes change and optimizers do not: running statistics.

use std::collections::HashSet;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Bool, Tensor};

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

    /// Restores the values in place unless `is_applied`, `[1]`, is true. Nothing is read: the
    /// device chooses between the two.
    pub(crate) fn restore_unless<M: Module>(self, is_applied: Tensor<1, Bool>, module: M) -> M {
        drop(module.valid());
        module.map(&mut Choose { before: self.0, is_applied })
    }
}

/// A condition, `[1]`, for every number of a tensor of this shape.
pub(crate) fn for_all<const D: usize>(
    condition: &Tensor<1, Bool>,
    shape: [usize; D],
) -> Tensor<D, Bool> {
    condition.clone().reshape([1; D]).expand(shape)
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

struct Choose {
    before: Tensors,
    is_applied: Tensor<1, Bool>,
}

impl ModuleMapper for Choose {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(before) = self.before.remove::<D>(param.id) else { return param };
        let (id, after, mapper) = param.consume();
        let is_applied = for_all(&self.is_applied, after.dims());
        Param::from_mapped_value(id, before.mask_where(is_applied, after), mapper)
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
    fn the_device_chooses_between_statistics_before_and_after() {
        for device in autodiff_devices() {
            for is_applied in [true, false] {
                let norm: BatchNorm = BatchNormConfig::new(2).init(&device);
                let input = Tensor::<2>::from_floats([[1.0, f32::NAN], [5.0, 2.0]], &device);
                let remembered = Buffers::of(&norm);
                let before = norm.valid().running_mean.value();
                norm.forward(input);
                let after = norm.valid().running_mean.value();
                let flag = Tensor::from_data([is_applied], &device.clone().without_autodiff());
                let norm = remembered.restore_unless(flag, norm);
                let expected = if is_applied { after } else { before };
                let bits = |mean: Tensor<1>| -> Vec<u32> {
                    mean.into_data().iter::<f32>().map(f32::to_bits).collect()
                };
                assert_eq!(bits(norm.running_mean.value_sync()), bits(expected.clone()));
                assert_eq!(bits(norm.valid().running_mean.value()), bits(expected));
            }
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
