//! Abilities of tasks, derived from what a task provides.

use std::fmt;

use updraft_device::{DeviceSpec, open, probe, select};

use super::kind::{Opening, TaskKind};
use crate::config::{LogPlan, Plan, RecomputePlan, TrainPlan};
use crate::error::RunError;

/// Commands and settings that not all tasks support.
///
/// Each corresponds to a method of a task's traits that returns an implementation, or the reason
/// why there is none. Everything else, such as training and evaluation, is supported by every task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ability {
    /// `predict`: [`TaskPlan::predictor`](crate::TaskPlan::predictor).
    Predict,
    /// `quantize` and `pipeline`: [`TaskPlan::quantizer`](crate::TaskPlan::quantizer).
    Quantize,
    /// `train.recompute = "segments"`: [`Task::segments`](updraft_trainer::Task::segments).
    Segments,
    /// `train.recompute_batch_norms`: the model has batch norms.
    BatchNorms,
    /// `log.utilization`: [`Workload::multiply_adds`](crate::Workload::multiply_adds).
    Utilization,
}

impl Ability {
    /// All of them, commands first.
    pub const ALL: [Self; 5] =
        [Self::Predict, Self::Quantize, Self::Segments, Self::BatchNorms, Self::Utilization];

    /// Whether a plan uses it.
    pub(crate) fn is_asked(self, train: &TrainPlan, log: &LogPlan) -> bool {
        match self {
            Self::Predict | Self::Quantize => false,
            Self::Segments => train.recompute == RecomputePlan::Segments,
            Self::BatchNorms => train.recompute_batch_norms.is_some(),
            Self::Utilization => log.utilization,
        }
    }
}

/// The commands or the key.
impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Predict => "predict",
            Self::Quantize => "quantize, pipeline",
            Self::Segments => "train.recompute = \"segments\"",
            Self::BatchNorms => "train.recompute_batch_norms",
            Self::Utilization => "log.utilization",
        })
    }
}

impl dyn TaskKind {
    /// What the task does not support, with the reason, determined with its trial.
    ///
    /// The trial's data is opened and its model created, on any available device.
    ///
    /// # Errors
    /// [`RunError`] for a trial that cannot be opened: a bug of the task, or no device.
    pub fn refusals(&'static self) -> Result<Vec<(Ability, &'static str)>, RunError> {
        let plan = Plan::trial(self)?;
        let workload =
            plan.task.open(&plan, Opening { dir: None, run: None, progress: &mut |_, _| {} })?;
        let device = open(&select(&DeviceSpec::Auto, &probe())?)?;
        let refusal = |ability| match ability {
            Ability::Predict => plan.task.predictor().err(),
            Ability::Quantize => plan.task.quantizer().err(),
            Ability::Segments | Ability::BatchNorms | Ability::Utilization => {
                workload.refusal(ability, &device)
            }
        };
        let refused = |ability| Some((ability, refusal(ability)?));
        Ok(Ability::ALL.into_iter().filter_map(refused).collect())
    }

    /// The error of an unsupported command or setting.
    pub(crate) fn refused(&self, ability: Ability, reason: &'static str) -> RunError {
        let text = ability.to_string();
        let what = text.split(", ").next().unwrap_or_default().to_owned();
        RunError::NotForTask { what, task: self.name(), reason }
    }

    /// The first setting of a plan that the task does not support, with the reason.
    pub(crate) fn refused_setting(
        &'static self,
        train: &TrainPlan,
        log: &LogPlan,
    ) -> Option<(Ability, &'static str)> {
        // Most plans use none of them. A missing device is reported where it is needed.
        if !Ability::ALL.into_iter().any(|ability| ability.is_asked(train, log)) {
            return None;
        }
        let mut refusals = self.refusals().unwrap_or_default().into_iter();
        refusals.find(|(ability, _)| ability.is_asked(train, log))
    }
}
