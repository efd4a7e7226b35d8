//! The parts of a model that stay in f32.

use std::collections::BTreeSet;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// Containers whose parameters scale statistics taken over many values.
const WIDE: [&str; 5] = ["BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RmsNorm"];

/// The paths of parameters that stay in the dtype they are stored in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Islands {
    paths: BTreeSet<String>,
}

impl Islands {
    /// Whether the parameter at this path stays.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// The paths in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }
}

/// A normalization layer of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Norm {
    /// Its path in the module; `.` for the module itself.
    pub path: String,
    /// The name of its type, such as `BatchNorm`; a layer of yours may have a name of burn's.
    pub container: String,
}

/// Finds every normalization layer, in module order.
#[must_use]
pub fn norms<M: Module>(module: &M) -> Vec<Norm> {
    let mut finder = Finder::default();
    module.visit(&mut finder);
    finder.norms
}

/// Finds every parameter that belongs to a normalization, at any depth.
///
/// burn's reparameterization hook receives a parameter's path and not its container, so this pass,
/// which receives the containers, makes the list first.
#[must_use]
pub fn islands<M: Module>(module: &M) -> Islands {
    let mut finder = Finder::default();
    module.visit(&mut finder);
    finder.found
}

#[derive(Default)]
struct Finder {
    path: Vec<String>,
    /// How many of the enclosing containers are normalizations.
    depth: usize,
    found: Islands,
    norms: Vec<Norm>,
}

/// The name of a container that normalizes.
fn wide_name(container: &str) -> Option<&str> {
    container.strip_prefix("Struct:").filter(|name| WIDE.contains(name))
}

impl ModuleVisitor for Finder {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        if let Some(container) = wide_name(container_type) {
            self.depth += 1;
            // A container is named when one of its fields is entered.
            let path = if self.path.is_empty() { ".".to_owned() } else { self.path.join(".") };
            if self.norms.last().is_none_or(|norm| norm.path != path) {
                self.norms.push(Norm { path, container: container.to_owned() });
            }
        }
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        self.path.pop();
        self.depth -= usize::from(wide_name(container_type).is_some());
    }

    fn visit_float<const D: usize>(&mut self, _param: &Param<Tensor<D>>) {
        if self.depth > 0 {
            self.found.paths.insert(self.path.join("."));
        }
    }
}
