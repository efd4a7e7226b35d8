//! Work space of a layer of functions in closed form.

use updraft_simd::Aligned;

use crate::kernels::winograd::Space;

/// Work space that grows to what a call needs and is reused by the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct DenseScratch {
    /// What all threads share.
    pub(super) shared: Aligned,
    /// Sums of the gradients of the functions' parameters.
    pub(super) sums: Vec<f64>,
    pub(super) threads: Vec<DenseSpace>,
}

/// Work space of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct DenseSpace {
    /// Inputs by column, and what the base branch sees if that differs.
    pub(super) columns: [Aligned; 2],
    /// Values of functions.
    pub(super) panel: Aligned,
    /// Their gradients.
    pub(super) gradients: Aligned,
    /// Packed weights.
    pub(super) weights: Aligned,
    /// The last panel of a result, or sums of weights' gradients.
    pub(super) result: Aligned,
    /// Gradients of outputs by channel, and their panels.
    pub(super) dy: [Aligned; 2],
    /// A vector for each parameter of the functions.
    pub(super) lanes: Aligned,
    /// For convolutions by Winograd's algorithm.
    pub(super) winograd: Space,
}

impl AsMut<Space> for DenseSpace {
    fn as_mut(&mut self) -> &mut Space {
        &mut self.winograd
    }
}

impl DenseScratch {
    /// The allocated memory in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let of_threads = self.threads.iter().map(DenseSpace::bytes).sum::<usize>();
        self.shared.bytes()
            + self.sums.capacity() * size_of::<f64>()
            + self.threads.capacity() * size_of::<DenseSpace>()
            + of_threads
    }

    /// The shared numbers and the work space of each thread.
    pub(super) fn split(
        &mut self,
        shared: usize,
        threads: usize,
    ) -> (&mut [f32], &mut Vec<f64>, &mut [DenseSpace]) {
        if self.threads.len() < threads {
            self.threads.resize_with(threads, DenseSpace::default);
        }
        (self.shared.grown(shared), &mut self.sums, &mut self.threads[..threads])
    }
}

#[cfg(test)]
impl DenseSpace {
    fn bytes(&self) -> usize {
        let Self { columns, panel, gradients, weights, result, dy, lanes, winograd } = self;
        let single = [panel, gradients, weights, result, lanes];
        let all = columns.iter().chain(dy).chain(single).map(Aligned::bytes);
        all.sum::<usize>() + winograd.bytes()
    }
}
