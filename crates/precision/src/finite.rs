//! Which gradient is not finite.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// The path of the first parameter, in module order, whose gradient has NaN or infinity.
///
/// Reads the device once for each tensor until it finds one: use it to name a known fault, not to
/// check every step.
#[must_use]
pub fn first_non_finite<M: Module>(gradients: &GradientsParams, module: &M) -> Option<String> {
    let mut search = Search { gradients, path: Vec::new(), found: None };
    module.visit(&mut search);
    search.found
}

struct Search<'a> {
    gradients: &'a GradientsParams,
    path: Vec<String>,
    found: Option<String>,
}

impl ModuleVisitor for Search<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.found.is_some() {
            return;
        }
        let Some(gradient) = self.gradients.get::<D>(param.id) else { return };
        if gradient.into_data().iter::<f32>().any(|value| !value.is_finite()) {
            self.found = Some(self.path.join("."));
        }
    }
}
