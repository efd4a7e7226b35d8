//! Values in the order of numbers that a layer needs: that of the file, or channels first.

use super::error::Read;
use super::importer::Importer;
use super::message::Node;
use super::real::{Batch, Real};
use crate::network::graph::Value;
use crate::view::{Part, View};

impl<'a> Importer<'a> {
    /// A value whose shape in the graph is that of the file, in its order; channels alone may have
    /// axes of length 1 behind them.
    pub(super) fn placed(&mut self, real: Real) -> Read<Real> {
        let (own, shape) = (self.graph.shape(real.value), real.shape());
        let is_column = shape.len() == 1
            && own.first() == shape.first()
            && own[1..].iter().all(|&side| side == 1);
        if self.is_whole(&real) && (own == shape || is_column) {
            return Ok(real);
        }
        let by = real.view.clone();
        let real = self.rearranged(real, &by, &shape)?;
        Ok(Real { view: View::of(&shape), ..real })
    }

    /// The input of a layer that needs the batch as the first axis.
    pub(super) fn input_placed(&mut self, node: &Node<'a>, at: usize) -> Read<Real> {
        let real = self.input_real(node, at)?;
        self.check_batch(&real)?;
        self.placed(real)
    }

    /// Checks that the batch is the first axis.
    pub(super) fn check_batch(&self, real: &Real) -> Read<()> {
        match real.batch {
            Batch::Alone(0) => Ok(()),
            _ => self.refuse("the batch is not the first axis of its input; transpose it before"),
        }
    }

    /// Whether it has all numbers of its value, in its order.
    pub(super) fn is_whole(&self, real: &Real) -> bool {
        real.view.is_whole(self.numbers_of(real.value))
    }

    /// Whether it has all numbers of its value, whose channels are its last axis.
    pub(super) fn is_turned(&self, real: &Real) -> bool {
        real.view.is_channels_last(self.graph.shape(real.value))
            && self.graph.shape(real.value).len() > 1
    }

    /// A value whose channels are the last axis in the file.
    pub(super) fn tokens(&mut self, real: Real) -> Read<Real> {
        let shape = real.shape();
        let [pixels @ .., channels] = &shape[..] else {
            return self.refuse("a sample of its input has no axis");
        };
        if pixels.is_empty() {
            return self.placed(real);
        }
        if self.is_turned(&real) { Ok(real) } else { self.line(real, *channels, &shape) }
    }

    /// The same as a line, `[channels, pixels]`.
    pub(super) fn tokens_in_line(&mut self, real: Real) -> Read<Real> {
        let real = self.tokens(real)?;
        let shape = real.shape();
        match shape.last() {
            Some(&channels) if self.graph.shape(real.value).len() != 2 => {
                self.line(real, channels, &shape)
            }
            _ => Ok(real),
        }
    }

    fn line(&mut self, real: Real, channels: usize, shape: &[usize]) -> Read<Real> {
        let by = real.view.turned_last();
        let real = self.rearranged(real, &by, &[channels, by_pixels(shape)])?;
        let view = self.channels_last(real.value, shape)?;
        Ok(Real { view, ..real })
    }

    /// The numbers of a value whose channels are the last axis of a shape of the file.
    pub(super) fn channels_last(&self, value: Value, shape: &[usize]) -> Read<View> {
        let view = View::channels_last(self.graph.shape(value)).reshaped(shape);
        view.map_or_else(|| self.refuse("its result has another shape than its input"), Ok)
    }

    /// A tensor of matrices as a value, and whether their axes are swapped there.
    pub(super) fn matrices(&mut self, real: Real) -> Read<(Real, bool)> {
        let turned = real.view.transposed();
        if self.is_whole(&real) || !turned.is_whole(self.numbers_of(real.value)) {
            return Ok((self.placed(real)?, false));
        }
        Ok((self.placed(Real { view: turned, ..real })?, true))
    }

    /// The same numbers along other axes.
    pub(super) fn reshaped(&mut self, real: Real, shape: &[usize], batch: Batch) -> Read<Real> {
        if let Some(view) = real.view.reshaped(shape) {
            return Ok(Real { view, batch, ..real });
        }
        let real = self.placed(real)?;
        Ok(Real { view: View::of(shape), batch, ..real })
    }

    /// Places of an axis of a sample, from the first on.
    pub(super) fn cut(
        &mut self,
        mut real: Real,
        axis: usize,
        first: usize,
        by: &[Part],
    ) -> Read<Real> {
        let mut view = real.view.taken(axis, first, by);
        if view.is_none() {
            real = self.placed(real)?;
            view = real.view.taken(axis, first, by);
        }
        match view {
            Some(view) => Ok(Real { view, ..real }),
            None => self.refuse("its axis cannot be cut"),
        }
    }

    pub(super) fn numbers_of(&self, value: Value) -> usize {
        self.graph.shape(value).iter().product()
    }

    /// A value of another shape, by a layer that copies numbers.
    fn rearranged(&mut self, mut real: Real, by: &View, shape: &[usize]) -> Read<Real> {
        let (parts, first) = by.parts();
        let axes: Vec<[usize; 2]> =
            parts.iter().map(|&Part { len, stride }| [len, stride]).collect();
        let name = self.layer_name();
        let value = self.graph.rearrange(&name, real.value, shape, &axes, first);
        real.value = self.record(value, &[&real])?;
        Ok(real)
    }
}

/// Numbers of each channel, which is the last axis.
fn by_pixels(shape: &[usize]) -> usize {
    shape[..shape.len() - 1].iter().product()
}
