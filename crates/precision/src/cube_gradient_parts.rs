//! The gradients of a module for the kernels for GPUs.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::ops::Parts;

/// The gradients in module order, if the kernels take all of them.
pub(crate) fn gradient_parts<M: Module>(gradients: &GradientsParams, module: &M) -> Option<Parts> {
    let mut take = Take { gradients, parts: Some(Parts::default()) };
    module.visit(&mut take);
    take.parts
}

struct Take<'a> {
    gradients: &'a GradientsParams,
    /// `None` after a gradient that the kernels do not take.
    parts: Option<Parts>,
}

impl ModuleVisitor for Take<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.parts.is_none() {
            return;
        }
        let Some(gradient) = self.gradients.get::<D>(param.id) else { return };
        self.parts = self.parts.take().and_then(|parts| parts.with(gradient));
    }
}
