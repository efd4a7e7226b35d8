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
        true => checked(workload.init(device), copies(plan, device))?,
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
    let new = checked(workload.init(&origin), copies(plan, device))?;
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

/// How often the machine's memory holds the parameters at least: with their gradients only if the
/// device is known to compute there.
fn copies(plan: &Plan, device: &Device) -> u64 {
    if cfg!(feature = "flex") && origin(plan, device) == *device { 2 } else { 1 }
}

/// The model, or an error if it is too large for the machine.
fn checked<M: Module>(model: M, copies: u64) -> Result<M, RunError> {
    refuse_too_large(model.num_params(), copies, updraft_device::memory().total_bytes)?;
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

/// Returns an error for a model whose parameters, so many times, alone take more than the memory of
/// the machine or of the process's control group, if that is known.
fn refuse_too_large(parameters: usize, copies: u64, total: Option<u64>) -> Result<(), RunError> {
    let least = (parameters as u64).saturating_mul(copies * size_of::<f32>() as u64);
    match total {
        Some(total) if least > total => {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let with = if copies > 1 { " with their gradients" } else { "" };
            let reason = format!(
                "the model has {parameters} parameters, which take {:.1} GiB{with}; this process can \
                 use {:.1} GiB: make the model smaller, or raise the limit of its memory if it has one",
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
    fn a_model_is_too_large_by_what_the_memory_of_the_machine_holds_of_it() {
        // 2²⁷ parameters of four bytes take half a GiB, and as much with their gradients.
        let (parameters, total) = (1 << 27, Some(1 << 30));
        assert!(refuse_too_large(parameters, 2, total).is_ok());
        let error = refuse_too_large(parameters + 1, 2, total).expect_err("with gradients");
        let expected = "the model has 134217729 parameters, which take 1.0 GiB with their gradients; \
                        this process can use 1.0 GiB: make the model smaller, or raise the limit of \
                        its memory if it has one";
        assert_eq!(error.to_string(), expected);
        // The gradients are on another device.
        assert!(refuse_too_large(2 * parameters, 1, total).is_ok());
        let error = refuse_too_large(2 * parameters + 1, 1, total).expect_err("without gradients");
        assert!(error.to_string().contains("which take 1.0 GiB; this process"), "{error}");
        assert!(refuse_too_large(usize::MAX, 2, total).is_err(), "no overflow");
        assert!(refuse_too_large(usize::MAX, 2, None).is_ok());
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
