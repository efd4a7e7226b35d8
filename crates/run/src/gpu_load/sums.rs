//! Sums over samples of a card's load, by what the host was doing.

use serde::Serialize;
use updraft_device::CardLoad;

/// What the host is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Activity {
    /// Updates of the parameters.
    #[default]
    Updates,
    /// The evaluation after an epoch, and batch norms that are recomputed before it.
    Evaluation,
    /// Writing a checkpoint.
    Checkpoint,
}

/// A sum, and the number of its terms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sum {
    total: f64,
    pub(super) count: u64,
}

impl Sum {
    fn add(&mut self, term: Option<f64>) {
        if let Some(term) = term {
            self.total += term;
            self.count += 1;
        }
    }

    fn plus(self, other: Self) -> Self {
        Self { total: self.total + other.total, count: self.count + other.count }
    }

    /// `None` without a term.
    pub(super) fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.total / self.count as f64)
    }

    /// The number of terms that are missing from their sum if each could be 1.
    pub(super) fn missing(self) -> f64 {
        self.count as f64 - self.total
    }
}

/// Sums over samples of a card's load.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct LoadSums {
    updates: Sum,
    evaluation: Sum,
    checkpoint: Sum,
    power_w: Sum,
    peak_memory_bytes: Option<u64>,
    peak_temperature_c: Option<u32>,
}

/// The load of a card over a time; `None` where NVIDIA's library does not know.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct MeanLoad {
    /// The mean fraction of the time in which kernels ran.
    pub(super) busy_share: Option<f64>,
    /// The peak of the memory that all programs use, in the samples.
    peak_memory_bytes: Option<u64>,
    peak_temperature_c: Option<u32>,
    mean_power_w: Option<f64>,
    /// How many samples have a busy share.
    samples: u64,
}

impl LoadSums {
    pub(super) fn add(&mut self, load: &CardLoad, activity: Activity) {
        let busy = match activity {
            Activity::Updates => &mut self.updates,
            Activity::Evaluation => &mut self.evaluation,
            Activity::Checkpoint => &mut self.checkpoint,
        };
        busy.add(load.busy_share);
        self.power_w.add(load.power_w);
        // `None` is less than any number.
        self.peak_memory_bytes = self.peak_memory_bytes.max(load.memory_bytes);
        self.peak_temperature_c = self.peak_temperature_c.max(load.temperature_c);
    }

    /// The busy shares of samples during an activity.
    pub(super) fn busy_during(&self, activity: Activity) -> Sum {
        match activity {
            Activity::Updates => self.updates,
            Activity::Evaluation => self.evaluation,
            Activity::Checkpoint => self.checkpoint,
        }
    }

    /// The busy shares of all samples.
    pub(super) fn busy(&self) -> Sum {
        self.updates.plus(self.evaluation).plus(self.checkpoint)
    }

    /// `None` without a sample.
    pub(super) fn mean(&self) -> Option<MeanLoad> {
        (*self != Self::default()).then(|| MeanLoad {
            busy_share: self.busy().mean(),
            peak_memory_bytes: self.peak_memory_bytes,
            peak_temperature_c: self.peak_temperature_c,
            mean_power_w: self.power_w.mean(),
            samples: self.busy().count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_peaks_leave_out_what_is_not_known() {
        let mut sums = LoadSums::default();
        assert_eq!(sums.mean(), None);
        let sample = |busy_share, memory_bytes, temperature_c, power_w| CardLoad {
            busy_share,
            memory_bytes,
            temperature_c,
            power_w,
        };
        sums.add(&sample(Some(0.5), Some(7), None, Some(300.0)), Activity::Updates);
        sums.add(&sample(None, None, Some(60), None), Activity::Updates);
        sums.add(&sample(Some(0.25), Some(9), Some(55), Some(100.0)), Activity::Checkpoint);
        let mean = sums.mean().expect("samples");
        assert_eq!(
            mean,
            MeanLoad {
                busy_share: Some(0.375),
                peak_memory_bytes: Some(9),
                peak_temperature_c: Some(60),
                mean_power_w: Some(200.0),
                samples: 2,
            }
        );
        assert_eq!(sums.busy_during(Activity::Checkpoint).mean(), Some(0.25));
        assert_eq!(sums.busy_during(Activity::Evaluation).mean(), None);
    }
}
