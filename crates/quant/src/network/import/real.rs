//! Real numbers that depend on the input, along the axes that they have in the file.

use crate::network::graph::Value;
use crate::operation::Function;
use crate::view::View;

/// Real numbers that depend on the input.
#[derive(Debug, Clone)]
pub(super) struct Real {
    pub(super) value: Value,
    /// Whether they are those of the value's codes.
    pub(super) is_coded: bool,
    /// The value's numbers along the axes of a sample in the file.
    pub(super) view: View,
    /// The batch among these axes.
    pub(super) batch: Batch,
    /// A function of the value that no layer computes yet.
    pub(super) function: Option<Function>,
}

/// The place of the batch among the axes that a sample has in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Batch {
    /// An axis of its own behind so many axes of a sample.
    Alone(usize),
    /// A part of an axis of a sample, and the numbers of that axis that are outside of the batch: 1
    /// of `[batch · heads, tokens, features]`, all tokens of `[tokens · batch, features]`.
    Joined(usize, usize),
}

impl Real {
    /// The numbers of a value in its order, with the batch as the first axis.
    pub(super) fn of(value: Value, is_coded: bool, shape: &[usize]) -> Self {
        Self { value, is_coded, view: View::of(shape), batch: Batch::Alone(0), function: None }
    }

    /// The shape of a sample in the file.
    pub(super) fn shape(&self) -> Vec<usize> {
        self.view.shape()
    }

    /// Numbers of a sample.
    pub(super) fn count(&self) -> usize {
        self.shape().iter().product()
    }

    /// Axes in the file.
    pub(super) fn rank(&self) -> usize {
        match self.batch {
            Batch::Alone(_) => self.shape().len() + 1,
            Batch::Joined(..) => self.shape().len(),
        }
    }

    /// Whether so many axes at the end are a sample's alone.
    pub(super) fn ends_with(&self, axes: usize) -> bool {
        let behind = match self.batch {
            Batch::Alone(place) => self.shape().len().checked_sub(place),
            Batch::Joined(place, _) => self.shape().len().checked_sub(place + 1),
        };
        behind.is_some_and(|behind| axes <= behind)
    }

    /// Numbers of a sample that differ in axes outside of the batch.
    pub(super) fn before_batch(&self) -> usize {
        let before: usize = self.shape()[..self.batch.place()].iter().product();
        match self.batch {
            Batch::Alone(_) => before,
            Batch::Joined(_, outer) => before * outer,
        }
    }
}

impl Batch {
    /// The axis of the file that is the batch or contains it.
    pub(super) const fn place(self) -> usize {
        match self {
            Self::Alone(place) | Self::Joined(place, _) => place,
        }
    }

    /// The axis of a sample that an axis of the file is; `None` if it is or contains the batch.
    pub(super) const fn of_sample(self, axis: usize) -> Option<usize> {
        match self {
            Self::Alone(place) | Self::Joined(place, _) if axis == place => None,
            Self::Alone(place) if axis > place => Some(axis - 1),
            _ => Some(axis),
        }
    }

    /// Axes of the file in another order: those of a sample, and the place of the batch. An axis
    /// without a number is a new one of length 1.
    pub(super) fn ordered(
        self,
        axes: impl IntoIterator<Item = Option<usize>>,
    ) -> (Vec<Option<usize>>, Self) {
        let (mut of_sample, mut batch) = (Vec::new(), self);
        for axis in axes {
            let here = of_sample.len();
            match (axis, self) {
                (Some(axis), Self::Alone(place)) if axis == place => batch = Self::Alone(here),
                (Some(axis), Self::Joined(place, outer)) if axis == place => {
                    batch = Self::Joined(here, outer);
                    of_sample.push(Some(place));
                }
                (axis, _) => of_sample.push(axis.and_then(|axis| self.of_sample(axis))),
            }
        }
        (of_sample, batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_moves_with_its_axis() {
        // [tokens, batch, heads, features] as [heads, batch, tokens, features].
        let (axes, batch) = Batch::Alone(1).ordered([2, 1, 0, 3].map(Some));
        assert_eq!((axes, batch), (vec![Some(1), Some(0), Some(2)], Batch::Alone(1)));
        let (axes, batch) = Batch::Alone(0).ordered([3, 2, 1, 0].map(Some));
        assert_eq!((axes, batch), (vec![Some(2), Some(1), Some(0)], Batch::Alone(3)));
        // [tokens, batch · heads, features] as [batch · heads, 1, tokens, features].
        let (axes, batch) = Batch::Joined(1, 1).ordered([Some(1), None, Some(0), Some(2)]);
        assert_eq!((axes, batch), (vec![Some(1), None, Some(0), Some(2)], Batch::Joined(0, 1)));
        assert_eq!([0, 1, 2].map(|axis| Batch::Alone(1).of_sample(axis)), [Some(0), None, Some(1)]);
        assert_eq!([0, 1].map(|axis| Batch::Joined(1, 3).of_sample(axis)), [Some(0), None]);
    }
}
