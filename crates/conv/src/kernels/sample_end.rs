//! What follows the sums of a convolution's sample: a residual and an activation.

use updraft_simd::{Vectors, dispatch};

use super::elementwise::Activation;
use super::elementwise::function::{self, Function, with_function};

/// The end of every sample, while its results are still in the cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleEnd<'a> {
    activation: Activation,
    residual: Option<&'a [f32]>,
}

impl<'a> SampleEnd<'a> {
    /// An activation.
    pub(super) const fn of(activation: Activation) -> Self {
        Self { activation, residual: None }
    }

    /// The same after the addition of a residual: for each sample as many numbers as it has results,
    /// or several times as many, which are all added.
    pub(super) const fn with_residual(self, residual: &'a [f32]) -> Self {
        Self { residual: Some(residual), ..self }
    }

    /// Ends the sample `index` of `batch`.
    pub(super) fn finish(self, vectors: Vectors, [index, batch]: [usize; 2], y: &mut [f32]) {
        let Self { activation, residual } = self;
        let Some(residual) = residual else {
            if activation != Activation::Identity {
                function::values_in_place(vectors, activation, y);
            }
            return;
        };
        let of_sample = residual.len() / batch;
        let mut terms = residual[index * of_sample..][..of_sample].chunks_exact(y.len());
        let last = terms.next_back();
        for term in terms {
            add(vectors, Activation::Identity, term, y);
        }
        if let Some(last) = last {
            add(vectors, activation, last, y);
        }
    }
}

dispatch! {
    /// `y = activation(y + x)`.
    fn add(_simd, activation: Activation, x: &[f32], y: &mut [f32]) {
        with_function!(activation, function => for (&x, y) in x.iter().zip(y) {
            *y = function.value(*y + x);
        });
    }
}
