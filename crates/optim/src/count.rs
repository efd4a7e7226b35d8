//! How many updates a parameter has had, which corrects the bias of its moments.

use std::sync::{Arc, OnceLock};

use burn::tensor::{Device, Tensor};

/// The updates of a parameter.
#[derive(Debug, Clone)]
pub(crate) enum Count {
    /// Their number.
    Known(usize),
    /// The device decided about some of them.
    OnDevice(Arc<Followed>),
}

/// Updates that the device decided about, shared by all parameters with the same history.
#[derive(Debug, Clone)]
pub(crate) struct Followed {
    /// Which call of [`controlled`](crate::controlled) the last one was.
    pub(crate) scope: u64,
    /// `[1]`: the control's updates before it.
    pub(crate) applied: Tensor<1>,
    /// `[1]`: 1 if it was applied, else 0.
    pub(crate) is_applied: Tensor<1>,
    /// `[1]`: those of `applied` that were none of the parameter.
    pub(crate) missed: Tensor<1>,
    /// The updates before it, if all were applied.
    pub(crate) most: usize,
    /// The updates of the parameter with the last one, once they were read.
    pub(crate) read: OnceLock<usize>,
}

impl Followed {
    /// `[1]`: the updates of the parameter before the last one.
    pub(crate) fn before(&self) -> Tensor<1> {
        self.applied.clone() - self.missed.clone()
    }

    /// `[1]`: the updates of the parameter with the last one.
    pub(crate) fn after(&self) -> Tensor<1> {
        self.before() + self.is_applied.clone()
    }

    /// The number of [`after`](Self::after), by one read for all parameters that share it.
    fn count(&self) -> usize {
        *self.read.get_or_init(|| {
            #[cfg(test)]
            tests::count_read();
            self.after().into_scalar::<f32>().round() as usize
        })
    }

    fn to_device(&self, device: &Device) -> Self {
        let moved = |number: &Tensor<1>| number.clone().to_device(device);
        Self {
            scope: self.scope,
            applied: moved(&self.applied),
            is_applied: moved(&self.is_applied),
            missed: moved(&self.missed),
            most: self.most,
            read: self.read.clone(),
        }
    }
}

impl Count {
    /// The number of updates; reads the device if it decided about some, once for all parameters of
    /// one history.
    pub(crate) fn read(&self) -> usize {
        match self {
            Self::Known(count) => *count,
            Self::OnDevice(followed) => followed.count(),
        }
    }

    /// The most that it can be, without a read.
    pub(crate) fn most(&self) -> usize {
        match self {
            Self::Known(count) => *count,
            Self::OnDevice(followed) => followed.most + 1,
        }
    }

    /// The same on a device.
    pub(crate) fn moved_to(self, device: &Device) -> Self {
        match self {
            Self::OnDevice(followed) if followed.applied.device() != *device => {
                Self::OnDevice(Arc::new(followed.to_device(device)))
            }
            // The same numbers, so that parameters continue to share them.
            count => count,
        }
    }
}

/// Whether two counts are of one history.
impl PartialEq for Count {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(count), Self::Known(other)) => count == other,
            (Self::OnDevice(followed), Self::OnDevice(other)) => Arc::ptr_eq(followed, other),
            (Self::Known(_), Self::OnDevice(_)) | (Self::OnDevice(_), Self::Known(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use burn::optim::{Optimizer, RecordState, StateSink};

    use super::*;
    use crate::{AdamW, AdamWState, DeviceControl, controlled};

    thread_local! {
        static READS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_read() {
        READS.set(READS.get() + 1);
    }

    fn control(is_applied: f32, applied: f32) -> DeviceControl {
        let number = |number: f32| Tensor::from_floats([number], &Device::flex());
        DeviceControl {
            factor: number(1.0),
            is_applied: number(is_applied),
            applied: number(applied),
        }
    }

    /// A parameter after one more update.
    fn updated(
        (parameter, state): (Tensor<1>, Option<AdamWState<1>>),
    ) -> (Tensor<1>, Option<AdamWState<1>>) {
        let gradient = parameter.ones_like();
        AdamW::new().step(0.1, parameter, gradient, state)
    }

    #[test]
    fn a_record_of_parameters_with_one_history_reads_their_count_once() {
        let start = |value: f32| (Tensor::from_floats([value; 3], &Device::flex()), None);
        let mut all = [start(1.0), start(2.0), start(3.0), start(4.0)];
        for (update, is_applied) in [1.0, 0.0, 1.0].into_iter().enumerate() {
            // The second update was skipped.
            let applied = [0.0, 1.0, 1.0][update];
            all = controlled(&control(is_applied, applied), || {
                let mut which = 0;
                all.map(|one| {
                    which += 1;
                    // The last parameter takes no part in the first update.
                    if update == 0 && which == 4 { one } else { updated(one) }
                })
            });
        }
        let times = || {
            let mut sink = StateSink::default();
            for (index, (_, state)) in all.iter().enumerate() {
                let state = state.as_ref().expect("it was updated");
                state.state_flatten(&index.to_string(), &mut sink);
            }
            let times = sink.scalars.iter().filter(|(name, _)| name.ends_with(".time"));
            times.map(|(_, time)| format!("{time:?}")).collect::<Vec<_>>()
        };
        let before = READS.get();
        for _ in 0..2 {
            assert_eq!(times(), ["UInt(2)", "UInt(2)", "UInt(2)", "UInt(1)"]);
            assert_eq!(READS.get() - before, 2, "one for each history");
        }
    }
}
