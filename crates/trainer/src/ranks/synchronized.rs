//! Passes whose batch norms are synchronized among the ranks.

use std::cell::RefCell;
use std::rc::Rc;

use burn::module::Module;
use updraft_distributed::{gather, gather_f64};

use super::Ranks;
use super::statistics::{Layout, Values};
use crate::error::TrainError;

/// Sends numbers to all ranks and returns those of each, in the order of ranks.
pub type GatherNumbers = Rc<dyn Fn(&[f64]) -> Vec<Vec<f64>>>;

/// Runs a forward and a backward pass in which batch norms exchange their sums: by the weight of
/// this rank's loss, by an exchange among the ranks, and the pass.
///
/// `updraft_conv::synchronize_batch_norms` is one.
pub type Synchronize = fn(f64, GatherNumbers, &mut dyn FnMut());

impl Ranks {
    /// The same with batch norms that normalize by the statistics of the batches of all ranks.
    ///
    /// The first update checks that the layers of the model do it.
    #[must_use]
    pub fn with_synchronized_batch_norms(self, synchronize: Synchronize) -> Self {
        Self { synchronize: Some(synchronize), ..self }
    }

    /// Whether the ranks exchange numbers within a pass.
    pub(crate) fn synchronizes(&self) -> bool {
        self.synchronize.is_some() && !self.is_alone()
    }

    /// Runs both passes of a batch with `samples` samples on this rank.
    pub(crate) fn pass<R>(
        &mut self,
        samples: usize,
        run: impl FnOnce() -> R,
    ) -> Result<R, TrainError> {
        let Some(synchronize) = self.synchronize.filter(|_| self.synchronizes()) else {
            return Ok(run());
        };
        // A pass cannot return an error: after the first one each rank continues on its own.
        let failed = Rc::new(RefCell::new(None));
        let (collective, failure) = (RefCell::new(self.collective.clone()), Rc::clone(&failed));
        let gather = Rc::new(move |own: &[f64]| {
            if failure.borrow().is_none() {
                match gather_f64(&mut *collective.borrow_mut(), own) {
                    Ok(all) => return all,
                    Err(cause) => drop(failure.replace(Some(cause))),
                }
            }
            vec![own.to_vec()]
        });
        let (mut run, mut result) = (Some(run), None);
        synchronize(samples as f64, gather, &mut || {
            result = run.take().map(|run| run());
        });
        match failed.take() {
            Some(cause) => Err(cause.into()),
            None => Ok(result.expect("the pass is run")),
        }
    }

    /// Checks, once, that the statistics of a model are the same on all ranks after a synchronized
    /// pass.
    pub(crate) fn check_synchronized<M: Module>(&mut self, model: &M) -> Result<(), TrainError> {
        if self.is_checked || !self.synchronizes() {
            return Ok(());
        }
        self.is_checked = true;
        let own = Values::of(model);
        let all = gather(&mut self.collective, &own.to_bytes())?;
        let Some(rank) = all.iter().position(|other| *other != all[0]) else { return Ok(()) };
        let differs = all[0].iter().zip(&all[rank]).position(|(first, other)| first != other);
        let layout = Layout::of(model, &std::collections::HashMap::new());
        let path = layout.path_of(&own, differs.unwrap_or_default() / size_of::<f32>()).to_owned();
        Err(TrainError::NotSynchronized { path, rank })
    }
}
