//! Reading a part of a checkpoint's model into another model.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Bytes, DType, Int, Shape, Tensor, TensorData};
use burn_pack::Reader;

use super::error::CheckpointError;
use super::load::served;

/// Reads the parameters under `part` of a checkpoint's served model, such as `encoder`, into a
/// module with the same parameters.
///
/// Parameters of other kinds than floating point are left as they are.
///
/// # Errors
/// [`CheckpointError::MissingTensor`] for a parameter that the checkpoint does not have,
/// [`CheckpointError::TensorShape`] for one of another shape, [`CheckpointError::UnusedTensor`] for
/// one under `part` that the module does not have, and as [`load_model`](crate::load_model); nothing
/// is changed then.
pub fn load_part<M: Module>(path: &Path, part: &str, module: M) -> Result<M, CheckpointError> {
    let (file, bytes) = served(path)?;
    let record = |cause: burn_pack::Error| CheckpointError::Record {
        path: file.clone(),
        cause: cause.into(),
    };
    let reader = Reader::from_bytes(Bytes::from_bytes_vec(bytes)).map_err(record)?;
    let mut tensors = BTreeMap::new();
    for tensor in reader.into_tensors().map_err(record)? {
        let (name, dtype, shape, _, bytes) = tensor.into_parts().map_err(record)?;
        tensors.insert(name, (dtype, shape, bytes));
    }
    let (path, failed) = (vec![part.to_owned()], None);
    let mut fill = Fill { file: &file, path, tensors, failed };
    let filled = module.map(&mut fill);
    let Fill { tensors, failed, .. } = fill;
    if let Some(error) = failed {
        return Err(error);
    }
    let inside = format!("{part}.");
    match tensors.into_keys().find(|tensor| tensor.starts_with(&inside)) {
        None => Ok(filled),
        Some(tensor) => Err(CheckpointError::UnusedTensor { path: file, tensor }),
    }
}

/// Replaces every parameter by the tensor of its path.
struct Fill<'a> {
    file: &'a Path,
    path: Vec<String>,
    tensors: BTreeMap<String, (DType, Shape, Bytes)>,
    failed: Option<CheckpointError>,
}

impl Fill<'_> {
    /// The tensor of the current path, with the shape of a parameter.
    fn take(&mut self, expected: &[usize]) -> Result<TensorData, CheckpointError> {
        let (path, tensor) = (self.file.to_owned(), self.path.join("."));
        let Some((dtype, shape, bytes)) = self.tensors.remove(&tensor) else {
            return Err(CheckpointError::MissingTensor { path, tensor });
        };
        if !dtype.is_float() {
            let (expected, found) = ("floating point", format!("{dtype:?}"));
            return Err(CheckpointError::TensorKind { path, tensor, expected, found });
        }
        if shape.to_vec() != expected {
            let (expected, found) = (expected.to_vec(), shape.to_vec());
            return Err(CheckpointError::TensorShape { path, tensor, expected, found });
        }
        Ok(TensorData::from_bytes(bytes, shape, dtype))
    }
}

impl ModuleMapper for Fill<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failed.is_some() {
            return param;
        }
        let old = param.val();
        match self.take(&old.dims()) {
            Ok(data) => {
                let is_trained = param.is_require_grad();
                let (id, _, mapper) = param.consume();
                let tensor = Tensor::from_data(data, (&old.device(), old.dtype()));
                let tensor = if is_trained { tensor.require_grad() } else { tensor };
                Param::from_mapped_value(id, tensor, mapper)
            }
            Err(error) => {
                self.failed = Some(error);
                param
            }
        }
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        self.tensors.remove(&self.path.join("."));
        param
    }

    fn map_bool<const D: usize>(
        &mut self,
        param: Param<Tensor<D, Bool>>,
    ) -> Param<Tensor<D, Bool>> {
        self.tensors.remove(&self.path.join("."));
        param
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;
    use updraft_testing::{Numbers, alone};

    use super::*;
    use crate::OptimizerConfig;
    use crate::checkpoint::{RunState, Snapshot, save};

    #[derive(Module, Debug)]
    struct Net {
        front: Linear,
        back: Linear,
    }

    impl Net {
        fn new(device: &Device) -> Self {
            let layer = || LinearConfig::new(2, 3).init(device);
            Self { front: layer(), back: layer() }
        }
    }

    #[derive(Module, Debug)]
    struct Outer {
        part: Net,
    }

    #[derive(Module, Debug)]
    struct Front {
        front: Linear,
    }

    #[test]
    fn a_part_with_a_layer_more_than_the_module_is_refused_by_its_tensor() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let model = Outer { part: Net::new(&device) };
        let dir = tempfile::tempdir().expect("temporary folder");
        let snapshot = Snapshot {
            model: &model,
            optimizer: &OptimizerConfig::Adamw { weight_decay: 0.0, betas: [0.9, 0.999] }.init(),
            state: &RunState::default(),
            average: None,
            slow: None,
            served: None,
        };
        let path = save(dir.path(), &snapshot).expect("saved");
        load_part(&path, "part", Net::new(&device)).expect("read");
        let front = Front { front: LinearConfig::new(2, 3).init(&device) };
        let said = load_part(&path, "part", front).expect_err("refused").to_string();
        assert!(
            said.contains("has the tensor `part.back.bias`, which the model does not"),
            "{said}"
        );
    }

    #[test]
    fn a_part_of_the_served_model_is_read_into_a_module_and_keeps_what_is_trained() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let (model, average) = (Net::new(&device), Net::new(&device).valid());
        let dir = tempfile::tempdir().expect("temporary folder");
        let optimizer = OptimizerConfig::Adamw { weight_decay: 0.0, betas: [0.9, 0.999] }.init();
        let state = RunState::default();
        let snapshot = |average| Snapshot {
            model: &model,
            optimizer: &optimizer,
            state: &state,
            average,
            slow: None,
            served: None,
        };
        for served in [None, Some(&average)] {
            let path = save(&dir.path().join(format!("{}", served.is_some())), &snapshot(served));
            let path = path.expect("saved");
            let mut fresh = LinearConfig::new(2, 3).init(&device);
            fresh.weight = fresh.weight.set_require_grad(false);
            let back = load_part(&path, "back", fresh).expect("read");
            let expected = served.unwrap_or(&model);
            assert_eq!(back.weight.val().numbers(), expected.back.weight.val().numbers());
            assert_ne!(back.weight.val().numbers(), expected.front.weight.val().numbers());
            assert!(!back.weight.is_require_grad());
            assert!(back.bias.expect("a bias").is_require_grad());

            let refused = |part, module: Linear| {
                load_part(&path, part, module).expect_err("refused").to_string()
            };
            let said = refused("back", LinearConfig::new(2, 4).init(&device));
            let shapes = "`back.weight` has the shape [2, 3]; the model's has [2, 4]";
            assert!(said.contains(shapes), "{said}");
            let said = refused("middle", LinearConfig::new(2, 3).init(&device));
            assert!(said.contains("has no tensor `middle.weight`"), "{said}");
        }
    }
}
