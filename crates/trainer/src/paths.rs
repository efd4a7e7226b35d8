//! Visiting the parameters of a module with their paths.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// A visitor of floating-point parameters, running statistics included.
pub(crate) trait PathVisitor {
    /// Called in module order; `path` has the names of the modules and of the parameter.
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>);
}

/// Visits every floating-point parameter of a module.
pub(crate) fn visit_paths<M: Module>(module: &M, visitor: &mut impl PathVisitor) {
    module.visit(&mut WithPath { path: Vec::new(), visitor });
}

struct WithPath<'a, V> {
    path: Vec<String>,
    visitor: &'a mut V,
}

impl<V: PathVisitor> ModuleVisitor for WithPath<'_, V> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.visitor.visit(&self.path, param);
    }
}
