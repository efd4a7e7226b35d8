//! Backward passes of a task in segments, with recomputed activations.

use std::cell::RefCell;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::recompute::{Activations, SegmentValues, Segmented};

/// A forward and a backward pass in segments; the type of the values between them is erased.
pub trait SegmentedPass<M, I, O> {
    /// The gradients of the loss that `loss` computes of the outputs.
    ///
    /// `loss` is called once. `seed` repeats the random numbers of each segment, such as dropout
    /// masks, when it runs a second time.
    fn backward(
        &self,
        model: &M,
        input: I,
        loss: &mut dyn FnMut(O) -> Tensor<1>,
        seed: u64,
    ) -> GradientsParams;
}

/// A model cut into segments: training steps keep the input of each segment and recompute the rest.
///
/// Gradients are those of the plain pass, and running statistics are updated once; see
/// [`Segmented::backward`]. A model that draws random numbers draws other ones than in the plain
/// pass.
pub struct Segments<'a, M, I, S, O> {
    /// The number of segments.
    pub count: usize,
    /// Computes the input of the first segment; it must not use learned parameters.
    pub enter: &'a dyn Fn(&M, I) -> S,
    /// Runs the segment of this index, from 0.
    pub segment: &'a dyn Fn(&M, usize, S) -> S,
    /// Computes the model's output from that of the last segment.
    pub leave: &'a dyn Fn(&M, S) -> O,
}

impl<M: Module, I, S: SegmentValues, O> SegmentedPass<M, I, O> for Segments<'_, M, I, S, O> {
    fn backward(
        &self,
        model: &M,
        input: I,
        loss: &mut dyn FnMut(O) -> Tensor<1>,
        seed: u64,
    ) -> GradientsParams {
        let loss = RefCell::new(loss);
        let segmented = Segmented {
            count: self.count,
            segment: self.segment,
            head: &|model, streams| ((loss.borrow_mut())((self.leave)(model, streams)), ()),
        };
        let entering = (self.enter)(model, input);
        segmented.backward(model, entering, Activations::Recomputed, seed).gradients
    }
}
