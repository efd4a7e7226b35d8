//! Checks that the tensors of a file have the model's kinds of numbers.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Bytes, Int, Tensor};
use burn_pack::Reader;

use super::error::CheckpointError;

/// Returns an error if a tensor has another kind of numbers than the model's at that path: burn
/// would restore it, and the first operation on it would panic.
pub(super) fn check_kinds<M: Module>(
    path: &Path,
    bytes: &[u8],
    model: &M,
) -> Result<(), CheckpointError> {
    let record = |cause: burn_pack::Error| CheckpointError::Record {
        path: path.to_owned(),
        cause: cause.into(),
    };
    let mut kinds = Kinds { path: Vec::new(), found: BTreeMap::new() };
    model.visit(&mut kinds);
    let reader = Reader::from_bytes(Bytes::from_bytes_vec(bytes.to_vec())).map_err(record)?;
    for tensor in reader.into_tensors().map_err(record)? {
        let (name, dtype, ..) = tensor.into_parts().map_err(record)?;
        let Some(expected) = kinds.found.get(&name) else { continue };
        let is_right = match expected {
            Kind::Float => dtype.is_float(),
            Kind::Int => dtype.is_int() || dtype.is_uint(),
            Kind::Bool => dtype.is_bool(),
        };
        if !is_right {
            let (path, found) = (path.to_owned(), format!("{dtype:?}"));
            let expected = expected.text();
            return Err(CheckpointError::TensorKind { path, tensor: name, expected, found });
        }
    }
    Ok(())
}

enum Kind {
    Float,
    Int,
    Bool,
}

impl Kind {
    const fn text(&self) -> &'static str {
        match self {
            Self::Float => "floating point",
            Self::Int => "integers",
            Self::Bool => "booleans",
        }
    }
}

/// The kind of each tensor of a model by its path.
struct Kinds {
    path: Vec<String>,
    found: BTreeMap<String, Kind>,
}

impl ModuleVisitor for Kinds {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, _: &Param<Tensor<D>>) {
        self.found.insert(self.path.join("."), Kind::Float);
    }

    fn visit_int<const D: usize>(&mut self, _: &Param<Tensor<D, Int>>) {
        self.found.insert(self.path.join("."), Kind::Int);
    }

    fn visit_bool<const D: usize>(&mut self, _: &Param<Tensor<D, Bool>>) {
        self.found.insert(self.path.join("."), Kind::Bool);
    }
}
