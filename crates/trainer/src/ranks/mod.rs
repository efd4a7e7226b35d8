//! The ranks of a data-parallel run: what they exchange, and what they decide together.

mod evaluation;
mod fingerprint;
mod flags;
mod packing;
mod start;
mod statistics;
mod synchronized;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Device;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use updraft_distributed::{AllReduce, Alone, Collective, Shared, Wire, gather};
use updraft_precision::Policy;

pub use self::evaluation::evaluate_on_ranks;
pub(crate) use self::fingerprint::fingerprint;
pub(crate) use self::packing::has_gradient;
use self::statistics::Layout;
pub(crate) use self::statistics::Statistics;
pub use self::statistics::count_statistics;
pub use self::synchronized::{GatherNumbers, Synchronize};
use crate::bits::Bits;
use crate::bn_recompute::{followers, keeps_statistics};
use crate::error::TrainError;
use crate::events::Control;
use crate::metric::{LossSums, Score};
use crate::stream::BatchStream;
use crate::task::{StepContext, Task};
use crate::tensors::Tensors;

/// The ranks of a data-parallel run, for [`Run::train_on_ranks`](crate::Run::train_on_ranks).
///
/// Every rank has the same model and a part of each batch. After the backward pass they compute the
/// mean gradient over the samples of all ranks, so that all take the same update; whatever one of
/// them decides, such as to skip an update or to stop, all do.
pub struct Ranks {
    collective: Shared,
    wire: Wire,
    sums: AllReduce,
    /// Sums of statistics, which are always exchanged in f32.
    exact_sums: AllReduce,
    /// How batch norms are synchronized, if they are.
    synchronize: Option<Synchronize>,
    /// Whether statistics were compared after the first synchronized pass.
    is_checked: bool,
    layout: Layout,
    /// Whether this rank's observer asked to stop since the last exchange.
    wants_stop: bool,
    /// Whether any rank's had asked at the last exchange.
    stops: bool,
}

impl std::fmt::Debug for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, size) = (self.collective.rank(), self.collective.size());
        f.debug_struct("Ranks").field("rank", &rank).field("size", &size).finish_non_exhaustive()
    }
}

/// What the ranks exchange in an update before their gradients.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StepShare<S> {
    pub(crate) sums: LossSums,
    pub(crate) score: S,
    /// The loss that is not finite, and the first tensor that is not.
    pub(crate) bad: Option<(Bits, String)>,
    /// Which parameters have a gradient, in module order.
    #[serde(with = "flags")]
    pub(crate) has_gradient: Vec<bool>,
    /// The samples of each batch.
    pub(crate) counts: Vec<usize>,
}

/// A share with the request to stop.
#[derive(Serialize, Deserialize)]
struct Exchanged<T> {
    share: T,
    wants_stop: bool,
}

impl Ranks {
    /// The ranks that an engine connects; gradients travel in the format `wire`.
    #[must_use]
    pub fn new(collective: Shared, wire: Wire) -> Self {
        Self {
            collective,
            wire,
            sums: AllReduce::new(wire),
            exact_sums: AllReduce::new(Wire::F32),
            synchronize: None,
            is_checked: false,
            layout: Layout::default(),
            wants_stop: false,
            stops: false,
        }
    }

    /// The only rank of a run.
    pub(crate) fn alone() -> Self {
        Self::new(Shared::new(Alone), Wire::F32)
    }

    /// Which of the ranks this is, counted from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.collective.rank()
    }

    /// The number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.collective.size()
    }

    /// Whether there is nothing to exchange.
    pub(crate) fn is_alone(&self) -> bool {
        self.size() == 1
    }

    /// What every rank shares, in the order of ranks; the request to stop is exchanged with it.
    pub(crate) fn exchange<T>(&mut self, share: T) -> Result<Vec<T>, TrainError>
    where
        T: Serialize + DeserializeOwned,
    {
        let own = Exchanged { share, wants_stop: self.wants_stop };
        if self.is_alone() {
            self.stops = own.wants_stop;
            return Ok(vec![own.share]);
        }
        let sent = serde_json::to_vec(&own).map_err(|cause| TrainError::Exchange { cause })?;
        let mut shares = Vec::new();
        self.stops = false;
        for received in gather(&mut self.collective, &sent)? {
            let read: Result<Exchanged<T>, _> = serde_json::from_slice(&received);
            let Exchanged { share, wants_stop } =
                read.map_err(|cause| TrainError::Exchange { cause })?;
            self.stops |= wants_stop;
            shares.push(share);
        }
        Ok(shares)
    }

    /// Whether all ranks stop after an update, whose observer returned `control`: a rank alone
    /// stops at once, several after the next exchange.
    pub(crate) fn after_update(&mut self, control: Control) -> Control {
        self.wants_stop |= control != Control::Continue;
        let stops = if self.is_alone() { self.wants_stop } else { self.stops };
        if stops { Control::Stop } else { Control::Continue }
    }

    /// Whether all ranks stop now, because the observer of any of them wants to.
    pub(crate) fn decide(&mut self, control: Control) -> Result<Control, TrainError> {
        self.wants_stop |= control != Control::Continue;
        self.exchange(())?;
        Ok(if self.stops { Control::Stop } else { Control::Continue })
    }

    /// The result of what rank 0 alone does; the others wait for it.
    pub(crate) fn first_does<T>(
        &mut self,
        run: impl FnOnce() -> Result<T, TrainError>,
    ) -> Result<T, TrainError>
    where
        T: Clone + Serialize + DeserializeOwned,
    {
        let done = (self.rank() == 0).then(run);
        let text = |result: &Result<T, TrainError>| match result {
            Ok(value) => Ok(value.clone()),
            Err(error) => Err(error.to_string()),
        };
        let mut shared = self.exchange(done.as_ref().map(text))?;
        match (done, shared.swap_remove(0)) {
            (Some(own), _) => own,
            (None, Some(Ok(value))) => Ok(value),
            (None, Some(Err(reason))) => Err(TrainError::Rank { rank: 0, reason }),
            (None, None) => unreachable!("rank 0 shares its result"),
        }
    }

    /// The mean gradient over the samples of all ranks, from this rank's mean over its own part,
    /// `share` of the samples.
    ///
    /// `expected` are the parameters of which any rank has a gradient, in module order; a rank
    /// without one counts with zero.
    pub(crate) fn mean<M: Module>(
        &mut self,
        gradients: GradientsParams,
        share: f64,
        expected: &[bool],
        model: &M,
    ) -> Result<GradientsParams, TrainError> {
        let mut numbers = packing::pack(gradients, expected, model);
        packing::scale(&mut numbers, share);
        self.sums.sum(&mut self.collective, &mut numbers)?;
        Ok(packing::unpack(&numbers, expected, model))
    }

    /// Measures how the local batch norms of a model follow the batches, on the first one of this
    /// rank in the epoch, before the first update: running means and variances then count a batch of
    /// all ranks as one. Without it every rank keeps its own.
    ///
    /// # Errors
    /// [`TrainError::Data`] for the batch, [`TrainError::Collective`] if a rank is lost, or has
    /// layers that follow otherwise.
    ///
    /// # Panics
    /// As the task.
    pub fn follow_batch_norms<M: Module, T: Task<M>>(
        &mut self,
        task: &T,
        model: &M,
        stream: &dyn BatchStream<T::Batch>,
        (device, policy): (&Device, Policy),
        context: StepContext,
    ) -> Result<(), TrainError> {
        if self.is_alone() || self.synchronizes() || !keeps_statistics(model) {
            return Ok(());
        }
        let epoch = context.epoch;
        let failed = |cause| TrainError::Data { epoch, split: "training", cause };
        // As in `serve`, copies of a model do not use burn's recomputation strategy.
        let device = device.clone().without_autodiff().autodiff();
        let batch = stream.epoch(epoch).next().transpose().map_err(failed)?;
        let Some(batch) = batch else { return Ok(()) };
        let (input, _) = task.place(batch, &device).map_err(failed)?;
        let input = input.cast_floats(policy.compute);
        let forward = |model: &M, input| drop(task.forward(model, input, &context));
        self.layout = Layout::of(model, &followers(model, &forward, &input));
        let roles = format!("{:?}", self.layout);
        self.agree(&[("the momentum of the model's batch norms", roles)])
    }

    /// The statistics before an update, where [`merge_statistics`](Self::merge_statistics) needs
    /// them.
    pub(crate) fn statistics_before<M: Module>(&self, model: &M) -> Option<Statistics> {
        let is_needed = !self.is_alone() && !self.synchronizes() && !self.layout.is_empty();
        is_needed.then(|| Statistics::before(model))
    }

    /// The model with running statistics over the batches of all ranks; see [`Layout::merge`].
    pub(crate) fn merge_statistics<M: Module>(
        &mut self,
        statistics: Option<&Statistics>,
        counts: &[Vec<usize>],
        model: M,
    ) -> Result<M, TrainError> {
        let Some(statistics) = statistics else { return Ok(model) };
        let engine = (&mut self.exact_sums, &mut self.collective as &mut dyn Collective);
        self.layout.merge(statistics, counts, engine, model)
    }
}

impl<S: Score> StepShare<S> {
    /// The sums over all ranks, in their order.
    pub(crate) fn merged(shares: &[Self]) -> (LossSums, S) {
        let mut sums = LossSums::default();
        let mut score = S::default();
        for share in shares {
            sums.merge(&share.sums);
            score.merge(&share.score);
        }
        (sums, score)
    }

    /// The first rank whose loss is not finite, as an error.
    pub(crate) fn first_bad(shares: &[Self], step: u64) -> Option<TrainError> {
        let mut bad = shares.iter().enumerate().filter_map(|(rank, share)| {
            let (loss, tensor) = share.bad.as_ref()?;
            let tensor = format!("{tensor} of rank {rank}");
            Some(TrainError::NonFiniteLoss { step, loss: loss.number(), tensor })
        });
        bad.next()
    }

    /// The samples of each batch, by rank.
    pub(crate) fn counts(shares: &[Self]) -> Vec<Vec<usize>> {
        shares.iter().map(|share| share.counts.clone()).collect()
    }

    /// The parameters of which any rank has a gradient.
    pub(crate) fn expected(shares: &[Self]) -> Vec<bool> {
        let mut expected = Vec::new();
        for share in shares {
            expected.resize(share.has_gradient.len().max(expected.len()), false);
            let all = expected.iter_mut().zip(&share.has_gradient);
            all.for_each(|(expected, &has)| *expected |= has);
        }
        expected
    }
}
