//! The trait of a task: what a model is trained to do.

use std::borrow::Cow;

use burn::tensor::{Device, Tensor};
use updraft_precision::{Norm, Policy};

use crate::metric::{Direction, MetricSpec, Score, Unit};
use crate::segments::SegmentedPass;
use crate::stream::StreamError;
use crate::tensors::Tensors;

/// What a model `M` is trained to do: how a batch becomes a loss and a score.
///
/// Training and evaluation take a task: [`Run`](crate::Run), [`train_step`](crate::train_step),
/// [`evaluate`](crate::evaluate()), [`find_learning_rate`](crate::find_learning_rate) and
/// [`rehearse`](crate::rehearse()). The page of this crate has a complete one.
pub trait Task<M> {
    /// The batch that a stream delivers, usually on the host.
    type Batch;
    /// The input of the model, on a device.
    type Input: Tensors;
    /// The target, on a device.
    type Target: Tensors;
    /// What the model returns.
    type Output: Tensors;
    /// The score from which the metrics are computed, over any number of batches.
    type Score: Score;

    /// Moves a batch to a device.
    ///
    /// # Errors
    /// If the batch has another shape or kind of target than the task takes.
    fn place(
        &self,
        batch: Self::Batch,
        device: &Device,
    ) -> Result<(Self::Input, Self::Target), StreamError>;

    /// Runs the model.
    fn forward(&self, model: &M, input: Self::Input, context: &StepContext) -> Self::Output;

    /// The mean loss over the samples of a batch, and its named parts.
    fn loss(&self, output: &Self::Output, target: &Self::Target) -> Losses;

    /// The model before an update, from the first of its batches: for state of the model that no
    /// gradient moves, such as [`GradientNormWeights`](crate::GradientNormWeights). That is a
    /// floating-point tensor without a gradient: it is stored, and restored if the update is
    /// skipped. A pass of the model takes its input in `policy.compute`.
    fn before_update(
        &self,
        model: M,
        batch: (&Self::Input, &Self::Target),
        (context, policy): (&StepContext, Policy),
    ) -> M {
        let _ = (batch, context, policy);
        model
    }

    /// The number of samples: the weight of a batch in means over several.
    fn samples(&self, target: &Self::Target) -> usize;

    /// An input and a target of `batch` samples, in the shapes of a stream's, for measuring memory
    /// and warming up; the values do not matter.
    fn example(&self, batch: usize, device: &Device) -> (Self::Input, Self::Target);

    /// The names of [`Losses::parts`], in their order; each becomes the metric `loss-NAME`.
    fn parts(&self) -> Vec<String> {
        Vec::new()
    }

    /// The metrics in addition to the loss, in the order of [`values`](Self::values).
    fn metrics(&self) -> Vec<MetricSpec> {
        Vec::new()
    }

    /// The numbers of a batch that its score is computed from, still on the device: `[numbers]`.
    /// They are read together with the loss. `None` if the loss is the only metric.
    ///
    /// Outputs and targets have no autodiff graph.
    fn measure(&self, output: &Self::Output, target: &Self::Target) -> Option<Tensor<1>> {
        let _ = (output, target);
        None
    }

    /// The same for a training batch, where a task can omit expensive metrics.
    fn measure_in_training(
        &self,
        output: &Self::Output,
        target: &Self::Target,
    ) -> Option<Tensor<1>> {
        self.measure(output, target)
    }

    /// The value of each of [`metrics`](Self::metrics); `None` if it is not defined.
    fn values(&self, score: &Self::Score) -> Vec<Option<f64>> {
        let _ = score;
        Vec::new()
    }

    /// The model in segments, for [`StepSettings::in_segments`](crate::StepSettings::in_segments).
    ///
    /// # Errors
    /// The reason why there are none, without a full stop.
    fn segments(&self) -> Result<&dyn SegmentedPass<M, Self::Input, Self::Output>, &'static str> {
        Err("its model is not cut into segments")
    }

    /// Whether a normalization accepts narrow input because it computes in f32 internally; see
    /// [`Policy::check_norms`](updraft_precision::Policy::check_norms).
    fn casts(&self, norm: &Norm) -> bool {
        let _ = norm;
        false
    }
}

/// The loss of a batch.
#[derive(Debug, Clone)]
pub struct Losses {
    /// The minimized value, the mean over samples: `[1]`.
    pub total: Tensor<1>,
    /// Its parts, each `[1]`, reported with the names of [`Task::parts`].
    pub parts: Vec<Tensor<1>>,
}

impl From<Tensor<1>> for Losses {
    fn from(total: Tensor<1>) -> Self {
        Self { total, parts: Vec::new() }
    }
}

/// The context of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepContext {
    /// Training or evaluation.
    pub mode: Mode,
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// Updates before this one.
    pub step: u64,
    /// Seed for random numbers of this step.
    pub seed: u64,
}

impl StepContext {
    /// The context of an evaluation.
    #[must_use]
    pub const fn evaluation() -> Self {
        Self { mode: Mode::Evaluation, epoch: 0, step: 0, seed: 0 }
    }
}

/// The purpose of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// An update, or recomputing batch norms.
    Training,
    /// Metrics.
    Evaluation,
}

/// All metrics of a task: the loss, its parts, then the task's own.
///
/// # Panics
/// If the task does not return one value per metric.
pub fn metric_specs<M, T: Task<M>>(task: &T) -> Vec<MetricSpec> {
    let (metrics, values) = (task.metrics(), task.values(&T::Score::default()).len());
    assert_eq!(metrics.len(), values, "`Task::values` returns one value for each metric");
    let loss =
        |name: Cow<'static, str>| MetricSpec::new(name, Unit::None, Direction::LowerIsBetter);
    let parts = task.parts().into_iter().map(|part| loss(format!("loss-{part}").into()));
    std::iter::once(loss("loss".into())).chain(parts).chain(metrics).collect()
}
