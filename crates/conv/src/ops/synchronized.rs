//! Batch normalization by the statistics of the batches of several ranks.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// Sends numbers to all ranks and returns those of each, in the order of ranks.
pub type Gather = Rc<dyn Fn(&[f64]) -> Vec<Vec<f64>>>;

/// The ranks among which the batch norms of this thread exchange their sums.
#[derive(Clone)]
pub(super) struct Ranks {
    weight: f64,
    #[cfg_attr(not(feature = "flex"), expect(dead_code, reason = "only kernels exchange sums"))]
    gather: Gather,
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranks").field("weight", &self.weight).finish_non_exhaustive()
    }
}

thread_local! {
    static RANKS: RefCell<Option<Ranks>> = const { RefCell::new(None) };
}

/// Runs a forward and a backward pass in which the batch norms of this crate that train normalize
/// by the statistics of the batches of all ranks.
///
/// Every rank calls it at the same time with the same model and its own part of a batch. The layers
/// exchange moments in the forward pass and two sums for each channel in the backward pass, both in
/// f64 and in the order of ranks, so that statistics are the same on all ranks. `weight` is the
/// weight of this rank's loss in that of all ranks, usually its samples; gradients are those of the
/// loss of all ranks, divided by this rank's weight.
///
/// It affects layers that run [kernels](crate::LayerPath::Kernels); others keep the statistics of
/// their own rank. The scope ends when `pass` returns or panics.
pub fn synchronize_batch_norms(weight: f64, gather: Gather, pass: &mut dyn FnMut()) {
    struct Restore(Option<Ranks>);
    impl Drop for Restore {
        fn drop(&mut self) {
            RANKS.set(self.0.take());
        }
    }
    let _restore = Restore(RANKS.replace(Some(Ranks { weight, gather })));
    pass();
}

/// The ranks of the pass that runs on this thread, if it is synchronized.
#[cfg(feature = "flex")]
pub(super) fn ranks() -> Option<Ranks> {
    RANKS.with_borrow(Clone::clone)
}

#[cfg(feature = "flex")]
impl Ranks {
    /// Replaces the moments of this rank's `count` values per channel by those of all ranks.
    pub(super) fn merge_moments(&self, count: usize, [means, variances]: [&mut [f32]; 2]) {
        let channels = means.len();
        let own = means.iter().chain(variances.iter()).map(|&number| f64::from(number));
        let own: Vec<f64> = std::iter::once(count as f64).chain(own).collect();
        let all = (self.gather)(&own);
        for channel in 0..channels {
            let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
            for rank in &all {
                let (more, difference) = (rank[0], rank[1 + channel] - mean);
                let variance = rank[1 + channels + channel];
                // Chan, Golub and LeVeque 1979, equation 2.1.
                let total = count + more;
                mean += difference * more / total;
                squares += variance * more + difference * difference * count * more / total;
                count = total;
            }
            means[channel] = mean as f32;
            variances[channel] = (squares / count) as f32;
        }
    }

    /// Two sums for each channel over the values of all ranks, in the scale of this rank's loss, and
    /// how many values there are per channel; `count` of them are this rank's.
    #[cfg(feature = "autodiff")]
    pub(super) fn merge_sums(&self, count: usize, sums: &[[f64; 2]]) -> (Vec<[f64; 2]>, f64) {
        let weighted = sums.iter().flatten().map(|sum| sum * self.weight);
        let own: Vec<f64> = std::iter::once(count as f64).chain(weighted).collect();
        let mut total = vec![0.0; own.len()];
        for rank in (self.gather)(&own) {
            total.iter_mut().zip(rank).for_each(|(total, number)| *total += number);
        }
        let (count, sums) = total.split_first().expect("the count comes first");
        let of_all = |sums: &[f64; 2]| sums.map(|sum| sum / self.weight);
        (sums.as_chunks().0.iter().map(of_all).collect(), *count)
    }
}
