//! How many updates a parameter has had, which corrects the bias of its moments.

use std::sync::Arc;

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

    fn to_device(&self, device: &Device) -> Self {
        let moved = |number: &Tensor<1>| number.clone().to_device(device);
        Self {
            applied: moved(&self.applied),
            is_applied: moved(&self.is_applied),
            missed: moved(&self.missed),
            ..*self
        }
    }
}

impl Count {
    /// The number of updates; reads the device if it decided about some.
    pub(crate) fn read(&self) -> usize {
        match self {
            Self::Known(count) => *count,
            Self::OnDevice(followed) => {
                let count = followed.after().into_scalar::<f32>();
                count.round() as usize
            }
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
