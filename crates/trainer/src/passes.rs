//! How a model is run in training: whole, or segment by segment with activations recomputed.

use std::cell::RefCell;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use updraft_precision::Norm;

use crate::recompute::{Activations, Segmented, Streams};

/// The closures that run a model whose input has rank `D`.
pub struct Passes<'a, M, const D: usize = 4> {
    /// Outputs of an input: of images, `[batch, channels, height, width]`, logits
    /// `[batch, classes]`.
    pub forward: &'a dyn Fn(&M, Tensor<D>) -> Tensor<2>,
    /// The same in segments, where activations are to be recomputed in training steps.
    pub segments: Option<&'a dyn SegmentedPass<M, D>>,
    /// Which normalizations take narrow input, because the model casts around them or they do so
    /// themselves; see [`Policy::check_norms`](updraft_precision::Policy::check_norms).
    pub is_cast: &'a dyn Fn(&Norm) -> bool,
}

impl<'a, M, const D: usize> Passes<'a, M, D> {
    /// A model that keeps the activations of its forward pass, with no normalization that
    /// takes narrow input.
    #[must_use]
    pub fn whole(forward: &'a dyn Fn(&M, Tensor<D>) -> Tensor<2>) -> Self {
        Self { forward, segments: None, is_cast: &|_| false }
    }

    /// Vouches for normalizations; what computes in a narrow dtype is refused without.
    #[must_use]
    pub fn with_cast_norms(self, is_cast: &'a dyn Fn(&Norm) -> bool) -> Self {
        Self { is_cast, ..self }
    }
}

impl<M, const D: usize> Clone for Passes<'_, M, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, const D: usize> Copy for Passes<'_, M, D> {}

/// A forward and a backward pass in segments, whatever flows between them.
pub trait SegmentedPass<M, const D: usize = 4> {
    /// The gradients of what `loss` makes of the outputs.
    ///
    /// `loss` is called once. `seed` repeats the random numbers of each segment, such as dropout
    /// masks, when it runs a second time.
    fn backward(
        &self,
        model: &M,
        input: Tensor<D>,
        loss: &mut dyn FnMut(Tensor<2>) -> Tensor<1>,
        seed: u64,
    ) -> GradientsParams;
}

/// A classifier cut into segments: training steps keep what enters each and compute the rest anew.
///
/// Gradients are those of the whole pass, and running statistics move once; see
/// [`Segmented::backward`]. Where a model draws random numbers, they are others than in the whole
/// pass.
pub struct Segments<'a, M, S> {
    /// How many segments there are.
    pub count: usize,
    /// Makes of images what flows into the first segment; learns nothing.
    pub enter: &'a dyn Fn(&M, Tensor<4>) -> S,
    /// Runs the segment of this index, from 0.
    pub segment: &'a dyn Fn(&M, usize, S) -> S,
    /// Makes logits of what the last segment gives.
    pub leave: &'a dyn Fn(&M, S) -> Tensor<2>,
}

impl<M: Module, S: Streams> SegmentedPass<M> for Segments<'_, M, S> {
    fn backward(
        &self,
        model: &M,
        images: Tensor<4>,
        loss: &mut dyn FnMut(Tensor<2>) -> Tensor<1>,
        seed: u64,
    ) -> GradientsParams {
        let loss = RefCell::new(loss);
        let segmented = Segmented {
            count: self.count,
            segment: self.segment,
            head: &|model, streams| ((loss.borrow_mut())((self.leave)(model, streams)), ()),
        };
        let entering = (self.enter)(model, images);
        segmented.backward(model, entering, Activations::Recomputed, seed).gradients
    }
}
