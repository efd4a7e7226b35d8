//! Initialization of all parameters when a network is created.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// Initializes every parameter that is not initialized yet, in module order: burn initializes a
/// parameter when it is first read.
pub(crate) fn initialize_parameters(network: &impl Module) {
    network.visit(&mut Draw);
}

struct Draw;

impl ModuleVisitor for Draw {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let _ = param.val();
    }
}
