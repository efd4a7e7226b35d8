//! Abilities of tasks, derived from what a task provides.

use std::fmt;

use serde_json::Value;
use updraft_device::{DeviceSpec, open, probe, select};

use super::kind::{Opening, TaskKind, TaskPlan};
use crate::config::{LogPlan, Plan, RecomputePlan, TrainPlan};
use crate::error::RunError;

/// Commands and settings that not all tasks support.
///
/// Each corresponds to a method of a task's traits that returns an implementation or the reason why
/// there is none. Every task supports everything else, such as training and evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ability {
    /// `predict`: [`TaskPlan::predictor`].
    Predict,
    /// `quantize` and `pipeline`: [`TaskPlan::quantizer`].
    Quantize,
    /// `eval --int8` and `predict --int8`: [`TaskPlan::quantizer`] and
    /// [`Workload::int8_forward`](crate::Workload::int8_forward).
    Int8,
    /// `eval --tta`: [`Workload::averaged`](crate::Workload::averaged).
    Averaging,
    /// `train.recompute = "segments"`: [`Task::segments`](updraft_trainer::Task::segments).
    Segments,
    /// `train.recompute_batch_norms`: the model has batch norms.
    BatchNorms,
    /// `train.resident`: [`TaskPlan::resident`].
    Resident,
    /// `log.utilization`: [`Workload::multiply_adds`](crate::Workload::multiply_adds).
    Utilization,
}

impl Ability {
    /// All of them, commands first.
    pub const ALL: [Self; 8] = [
        Self::Predict,
        Self::Quantize,
        Self::Int8,
        Self::Averaging,
        Self::Segments,
        Self::BatchNorms,
        Self::Resident,
        Self::Utilization,
    ];

    /// Whether a plan uses the setting.
    pub(crate) fn is_asked(self, train: &TrainPlan, log: &LogPlan) -> bool {
        match self {
            Self::Predict | Self::Quantize | Self::Int8 | Self::Averaging => false,
            Self::Segments => train.recompute == RecomputePlan::Segments,
            Self::BatchNorms => train.recompute_batch_norms.is_some(),
            Self::Resident => train.resident.is_some(),
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
            Self::Int8 => "eval --int8, predict --int8",
            Self::Averaging => "eval --tta",
            Self::Segments => "train.recompute = \"segments\"",
            Self::BatchNorms => "train.recompute_batch_norms",
            Self::Resident => "train.resident",
            Self::Utilization => "log.utilization",
        })
    }
}

impl dyn TaskKind {
    /// The abilities that the task does not support, with the reasons, determined with its trial.
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
            Ability::Int8 => match plan.task.quantizer() {
                Ok(_) => workload.refusal(ability, &device),
                Err(reason) => Some(reason),
            },
            Ability::Resident => plan.task.resident().err(),
            Ability::Averaging | Ability::Segments | Ability::BatchNorms | Ability::Utilization => {
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

    /// The first setting of a plan that its model does not support, with the reason.
    ///
    /// For a task that cannot create a model without data, the trial determines the result.
    pub(crate) fn refused_setting(
        &'static self,
        plan: &dyn TaskPlan,
        train: &TrainPlan,
        log: &LogPlan,
    ) -> Option<(Ability, &'static str)> {
        let mut asked = Ability::ALL.into_iter().filter(|ability| ability.is_asked(train, log));
        asked.find_map(|ability| {
            if ability == Ability::Resident {
                return Some((ability, plan.resident().err()?));
            }
            // A missing device is reported where it is needed.
            let device = open(&select(&DeviceSpec::Auto, &probe()).ok()?).ok()?;
            let is_of_model = ![Ability::Averaging, Ability::Utilization].contains(&ability);
            let refusal = match plan.on_examples(&Value::Null).filter(|_| is_of_model) {
                Some(model) => model.refusal(ability, &device),
                None => {
                    let mut refusals = self.refusals().ok()?.into_iter();
                    refusals.find_map(|(refused, reason)| (refused == ability).then_some(reason))
                }
            };
            Some((ability, refusal?))
        })
    }
}
