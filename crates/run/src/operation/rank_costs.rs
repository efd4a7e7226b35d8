//! What a plan costs on several ranks: the numbers that they exchange, and the bytes of a checkpoint.

use burn::tensor::Device;
use updraft_distributed::StepExchange;
use updraft_trainer::OptimizerConfig;

use super::any::AnyWorkload;
use crate::config::{BatchNormPlan, Plan};
use crate::error::RunError;

/// The numbers of a plan's model, for estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankCosts {
    /// What ranks exchange in a step.
    pub exchange: StepExchange,
    /// About the bytes of a checkpoint: the model twice, for resuming and for export, the state of
    /// the optimizer, and averages.
    pub checkpoint_bytes: u64,
}

impl RankCosts {
    /// Counts the numbers of the model with which a run of the plan begins, and of its gradients for
    /// the first batch, without those of parameters that are frozen from the beginning.
    ///
    /// # Errors
    /// As [`AnyWorkload::initial_gradients`].
    pub fn of(workload: &dyn AnyWorkload, plan: &Plan, device: &Device) -> Result<Self, RunError> {
        let gradients = workload.initial_gradients(plan, device)?.gradients.len();
        let all = workload.initial_parameters(plan, device)?.len();
        let train = &plan.train;
        // They are merged for each batch of an update.
        let statistics = match train.distributed.batch_norm {
            BatchNormPlan::Local => train.accumulate * workload.initial_statistics(plan, device)?,
            BatchNormPlan::Synchronized => 0,
        };
        let states = match train.optimizer {
            OptimizerConfig::Sgd { momentum: 0.0, .. } => 0,
            OptimizerConfig::Sgd { .. } => 1,
            _ => 2,
        };
        let copies =
            2 + usize::from(train.ema_decay.is_some()) + usize::from(train.lookahead.is_some());
        let checkpoint_bytes = 4 * (copies * all + states * gradients) as u64;
        let wire = train.distributed.wire.into();
        Ok(Self { exchange: StepExchange { gradients, wire, statistics }, checkpoint_bytes })
    }
}
