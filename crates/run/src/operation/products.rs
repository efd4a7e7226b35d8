//! Whether products of bf16 change what a model computes.

use burn::tensor::{Device, FloatDType};
use updraft_precision::{Policy, Products};
use updraft_trainer::{StepContext, Task, Tensors};

use crate::config::Plan;
use crate::task::Workload;

/// Samples of the forward passes that are compared.
const SAMPLES: usize = 2;

/// What a run reports about its precision: the reason for `auto`, and products of bf16 that no
/// layer has.
///
/// Draws from the random state of the device, which the trainer sets before every step.
pub(super) fn precision_notes<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
) -> Vec<String> {
    let mut notes: Vec<String> = plan.precision_note().map(str::to_owned).into_iter().collect();
    if plan.precision.products == Products::Bf16 && !multiplies_bf16(workload, device) {
        notes.push(
            "no layer of this network multiplies bf16 on this processor: it trains as in f32"
                .to_owned(),
        );
    }
    notes
}

/// Whether a layer of a new model multiplies numbers rounded to bf16 under
/// [`Policy::BF16_PRODUCTS`]: whether the outputs for example data change in a bit.
pub(super) fn multiplies_bf16<W: Workload>(workload: &W, device: &Device) -> bool {
    let task = workload.task();
    let [f32, bf16] = [Policy::F32, Policy::BF16_PRODUCTS].map(|policy| {
        device.seed(0);
        let model = workload.init(device);
        let (input, _) = task.example(SAMPLES, device);
        let output = policy.scope(|| task.forward(&model, input, &StepContext::evaluation()));
        output.cast_floats(FloatDType::F32).to_floats()
    });
    // A last layer that begins with zeros hides those before it.
    let is_constant = f32.windows(2).all(|pair| pair[0] == pair[1]);
    is_constant || f32 != bf16
}
