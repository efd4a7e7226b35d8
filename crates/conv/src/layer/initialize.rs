//! Initialization of parameters when a network is created.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// Initializes every parameter that is not initialized yet, in module order: burn initializes a
/// parameter when it is first read, so that the order of reading would decide its random numbers.
pub fn initialize_parameters(network: &impl Module) {
    network.visit(&mut Initialize);
}

struct Initialize;

impl ModuleVisitor for Initialize {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let _ = param.val();
    }
}
