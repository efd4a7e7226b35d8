//! The start of a run on several ranks: equal settings, and the parameters of rank 0.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData};
use updraft_distributed::{Collective, CollectiveError, agree};

use super::Ranks;
use crate::error::TrainError;
use crate::paths::{PathVisitor, visit_paths};

impl Ranks {
    /// Checks that every rank has these values, each with the name that an error gives it.
    pub(crate) fn agree(&mut self, values: &[(&str, String)]) -> Result<(), TrainError> {
        for (what, value) in values {
            agree(&mut self.collective, what, value)?;
        }
        Ok(())
    }

    /// Checks that every rank exchanges numbers in the same way.
    pub(crate) fn agree_on_exchange(&mut self) -> Result<(), TrainError> {
        let batch_norms = if self.synchronizes() { "synchronized" } else { "local" };
        let wire = format!("{:?}", self.wire);
        self.agree(&[
            ("the format of gradients", wire),
            ("the kind of batch norms", batch_norms.to_owned()),
        ])
    }

    /// The model with the floating-point tensors of rank 0's.
    pub(crate) fn with_first_parameters<M: Module>(&mut self, model: M) -> Result<M, TrainError> {
        if self.is_alone() {
            return Ok(model);
        }
        let mut shapes = Shapes::default();
        visit_paths(&model, &mut shapes);
        self.agree(&[("the model", shapes.text)])?;
        // Pending running statistics would overwrite the received ones.
        drop(model.valid());
        let mut receive = Receive { collective: &mut self.collective, failed: None };
        let model = model.map(&mut receive);
        match receive.failed {
            Some(cause) => Err(cause.into()),
            None => Ok(model),
        }
    }
}

/// Path, dtype and shape of every floating-point tensor.
#[derive(Default)]
struct Shapes {
    text: String,
}

impl PathVisitor for Shapes {
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>) {
        let tensor = param.base();
        let (path, dtype, dims) = (path.join("."), tensor.dtype(), tensor.dims());
        self.text += &format!("{path} {dtype:?} {dims:?}\n");
    }
}

struct Receive<'a> {
    collective: &'a mut dyn Collective,
    failed: Option<CollectiveError>,
}

impl ModuleMapper for Receive<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failed.is_some() {
            return param;
        }
        let (id, tensor, mapper) = param.consume();
        let (device, dtype, shape) = (tensor.device(), tensor.dtype(), tensor.shape());
        let is_trained = tensor.is_require_grad();
        let mut bytes = tensor.clone().without_autodiff().into_data().as_bytes().to_vec();
        if let Err(error) = self.collective.broadcast(0, &mut bytes) {
            self.failed = Some(error);
            return Param::from_mapped_value(id, tensor, mapper);
        }
        if self.collective.rank() == 0 {
            return Param::from_mapped_value(id, tensor, mapper);
        }
        let data = TensorData::from_bytes_vec(bytes, shape, dtype);
        let received = Tensor::from_data(data, (&device, dtype)).set_require_grad(is_trained);
        Param::from_mapped_value(id, received, mapper)
    }
}
