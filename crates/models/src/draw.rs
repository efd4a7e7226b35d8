//! Drawing the parameters of a network when it is made.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// Draws every parameter that is not drawn yet, in module order: burn draws a parameter when it is
/// first read.
pub(crate) fn draw_parameters(network: &impl Module) {
    network.visit(&mut Draw);
}

struct Draw;

impl ModuleVisitor for Draw {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let _ = param.val();
    }
}
