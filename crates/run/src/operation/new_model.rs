//! The new model of a run, checked against the memory of the machine and the plan.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use updraft_trainer::{Freeze, TrainError};

#[cfg(feature = "flex")]
use super::training_device::training_device;
use crate::config::Plan;
use crate::error::RunError;
use crate::task::Workload;

/// A model for a new run, or for one that is resumed and loads its parameters afterwards.
///
/// The parameters of a new run are drawn here: burn draws them when they are first used, so that they
/// would depend on the number of ranks, on dropout and on averages. They are drawn on the CPU and
/// moved, where the build has burn's `flex`, so that a seed gives the same model on every device.
///
/// In a box, because models are large values on the stack.
pub(super) fn new_model<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
    is_resumed: bool,
) -> Result<Box<W::Model>, RunError> {
    let model = match is_resumed {
        true => checked(workload.init(device))?,
        false => workload.prepare(plan, drawn(workload, plan, device)?, device)?,
    };
    check_frozen(plan, &model)?;
    Ok(Box::new(plan.precision.autocast(model)))
}

/// A model whose parameters are drawn, on its device.
fn drawn<W: Workload>(workload: &W, plan: &Plan, device: &Device) -> Result<W::Model, RunError> {
    let origin = origin(plan, device);
    if origin != *device {
        origin.seed(plan.seed);
    }
    let new = checked(workload.init(&origin))?;
    new.visit(&mut Draw);
    Ok(if origin == *device { new } else { new.fork(device) })
}

/// Where parameters are drawn.
#[cfg(feature = "flex")]
fn origin(plan: &Plan, _: &Device) -> Device {
    training_device(plan, Device::flex())
}

#[cfg(not(feature = "flex"))]
fn origin(_: &Plan, device: &Device) -> Device {
    device.clone()
}

/// The model, or an error if it is too large for the machine.
fn checked<M: Module>(model: M) -> Result<M, RunError> {
    refuse_too_large(model.num_params())?;
    Ok(model)
}

/// Uses every parameter once, in module order.
struct Draw;

impl ModuleVisitor for Draw {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        drop(param.val());
    }
}

/// The number of parameters that have gradients, without what norms and quantizers keep of batches.
pub(super) fn trained_parameters<M: Module>(model: &M) -> usize {
    let mut count = CountTrained(0);
    model.visit(&mut count);
    count.0
}

struct CountTrained(usize);

impl ModuleVisitor for CountTrained {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // States always have a value; a parameter may be drawn later.
        if !param.is_initialized() || param.val().is_require_grad() {
            self.0 += param.lazy_shape().num_elements();
        }
    }
}

/// Returns an error for a key that freezes parameters which the model does not have.
fn check_frozen<M: Module>(plan: &Plan, model: &M) -> Result<(), RunError> {
    Freeze::check(&plan.train.freeze, model).map_err(|error| match error {
        TrainError::Setting { value, expected, .. } => {
            let reason = format!("`train.freeze.parameters` is {value}; it must be {expected}");
            RunError::Unusable { reason }
        }
        other => other.into(),
    })
}

/// Returns an error for a model whose parameters and gradients alone take more than the machine's
/// memory.
fn refuse_too_large(parameters: usize) -> Result<(), RunError> {
    let least = (parameters as u64).saturating_mul(2 * size_of::<f32>() as u64);
    match updraft_device::memory().total_bytes {
        Some(total) if least > total => {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let reason = format!(
                "the model has {parameters} parameters, which take {:.1} GiB with their gradients; \
                 this machine has {:.1} GiB: make the model smaller",
                gib(least),
                gib(total)
            );
            Err(RunError::Unusable { reason })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};

    use super::*;

    #[derive(Module, Debug)]
    struct Net {
        linear: Linear,
        norm: BatchNorm,
    }

    #[test]
    fn what_norms_keep_of_batches_is_no_parameter() {
        let device = Device::flex().autodiff();
        let net = Net {
            linear: LinearConfig::new(3, 4).init(&device),
            norm: BatchNormConfig::new(4).init(&device),
        };
        // Before and after the parameters are drawn.
        for _ in 0..2 {
            assert_eq!(trained_parameters(&net), 3 * 4 + 4 + 2 * 4);
            net.visit(&mut Draw);
        }
    }
}
