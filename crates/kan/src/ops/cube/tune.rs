//! The form of a pass that is the fastest on a device, by burn's autotuning.
//!
//! Only forms of one precision are compared. Their results differ by rounding, so that runs that
//! measure another form as the fastest do not have the same bits.

use std::fmt;

use burn_cubecl::CubeTuneId;
use cubecl::tune::{AutotuneKey, LocalTuner, Tunable, TunableSet, anchor, local_tuner};
use serde::{Deserialize, Serialize};

use super::linear::Linear;
use super::pass::Pass;
use crate::kernels::CubeForm;
use crate::kernels::cube;
use crate::ops::extension::Forms;

type Tuner = LocalTuner<PassKey, CubeTuneId>;

/// Forms of one precision, and the tuner that stores which of them is the fastest.
struct Precision {
    forms: &'static [CubeForm],
    tuner: Tuner,
    is_forward_only: bool,
}

/// Products and sums in f32.
static F32: Precision = Precision {
    forms: &[CubeForm::Dense, CubeForm::Sparse],
    tuner: local_tuner!("f32"),
    is_forward_only: false,
};

/// Products of numbers rounded to bf16. In the backward pass the expanded form rounds the gradients
/// of the bases, too.
static BF16: Precision = Precision {
    forms: &[CubeForm::ExpandedBf16, CubeForm::Bf16],
    tuner: local_tuner!("bf16"),
    is_forward_only: true,
};

/// The same in f16.
static F16: Precision = Precision {
    forms: &[CubeForm::ExpandedF16, CubeForm::F16],
    tuner: local_tuner!("f16"),
    is_forward_only: true,
};

/// Runs a pass in the fastest form, which is measured at the first pass of a shape; returns the pass
/// if a form is forced, or the device has one form of the precision.
pub(super) fn run_fastest(linear: &Linear, pass: Pass, forms: Forms) -> Option<Pass> {
    if forms.forced.is_some() {
        return Some(pass);
    }
    let (client, layer) = (&linear.x.client, linear.layer(false));
    let rule = cube::chosen(client, None, forms.of_input, layer);
    let own = [&F32, &BF16, &F16].into_iter().find(|own| own.forms.contains(&rule));
    let is_forward = matches!(pass, Pass::Forward { .. });
    let comparable = own.filter(|own| {
        let has_all = own.forms.iter().all(|&form| cube::is_available(client, form, layer));
        has_all && (is_forward || !own.is_forward_only)
    });
    let Some(Precision { forms, tuner, .. }) = comparable else { return Some(pass) };
    let id = CubeTuneId::new(client, &linear.x.device);
    let set = tuner.init(&id, move || set_of(forms));
    tuner.execute(&id, client, set, Work { linear: linear.clone(), pass });
    None
}

/// A pass of a layer.
#[derive(Clone)]
struct Work {
    linear: Linear,
    pass: Pass,
}

fn set_of(forms: &[CubeForm]) -> TunableSet<PassKey, Work, ()> {
    let set: TunableSet<PassKey, Work, ()> = TunableSet::new_cloning_inputs(PassKey::of);
    forms.iter().fold(set, |set, &form| {
        set.with(Tunable::new(&form.to_string(), move |work: Work| {
            work.linear.run(&work.pass, form);
            Ok::<(), String>(())
        }))
    })
}

/// What decides which form is the fastest on a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct PassKey {
    pass: PassKind,
    /// To a power of two, so that similar batches share a measurement.
    batch: usize,
    in_features: usize,
    outputs: usize,
    degree: usize,
    intervals: usize,
    has_base: bool,
    is_scaled: bool,
    /// Taps of the window where samples are in images, else 0.
    #[serde(default)]
    window_taps: u32,
    /// Groups of channels where samples are in images, else 1.
    #[serde(default)]
    groups: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum PassKind {
    Forward,
    InputGradient,
    WeightGradient,
}

impl PassKey {
    fn of(Work { linear, pass }: &Work) -> Self {
        let layer = linear.layer(false);
        Self {
            pass: match pass {
                Pass::Forward { .. } => PassKind::Forward,
                #[cfg(feature = "autodiff")]
                Pass::InputGradient { .. } => PassKind::InputGradient,
                #[cfg(feature = "autodiff")]
                Pass::WeightGradient { .. } => PassKind::WeightGradient,
            },
            batch: anchor(linear.batch(), None, None, None),
            in_features: linear.in_features(),
            outputs: linear.outputs(),
            degree: layer.degree,
            intervals: layer.intervals,
            has_base: layer.activation.is_some(),
            is_scaled: layer.is_scaled,
            window_taps: linear.window_taps(),
            groups: linear.groups(),
        }
    }
}

impl fmt::Display for PassKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

impl AutotuneKey for PassKey {}
