//! The memory of layers of functions in closed form.

use burn::module::Param;
use burn::tensor::Tensor;

use super::basis_linear::BasisLinear;
#[cfg(feature = "flex")]
use crate::kernels::DenseLayer;
use crate::kernels::{BasisParts, LayerMemory};
use crate::ops::{LayerPath, plain_basis_memory};

/// The numbers of the functions' parameters, and whether they are trained.
pub(super) fn functions(functions: &Option<Param<Tensor<2>>>) -> (usize, bool) {
    functions.as_ref().map_or((0, false), |functions| {
        (functions.dims().into_iter().product(), functions.is_require_grad())
    })
}

impl BasisLinear {
    /// The memory of the passes in f32 on the layer's [`path`](Self::path), for a batch size and a
    /// number of threads.
    ///
    /// On the plain path it is the memory of burn's operations on flex. Parameters of the functions
    /// have a gradient if they are trained, on a device with autodiff.
    ///
    /// # Example
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::Device;
    /// use updraft_kan::{Basis, BasisLinearConfig, LayerPath};
    ///
    /// let basis = Basis::Chebyshev { degree: 7 };
    /// let layer = BasisLinearConfig::new(784, 64, basis).init(&Device::flex());
    /// let kernels = layer.memory(1024, 1);
    /// let plain = layer.with_path(LayerPath::Plain).memory(1024, 1);
    /// assert!(kernels.forward_scratch < plain.forward_scratch / 20);
    /// # }
    /// ```
    #[must_use]
    pub fn memory(&self, batch: usize, threads: usize) -> LayerMemory {
        let [inputs, _, outputs] = self.coefficients.dims();
        let (functions, is_trained) = functions(&self.functions);
        // Kernels alone have scratch for each thread.
        #[cfg(not(feature = "flex"))]
        let _ = threads;
        let parts = BasisParts {
            base: self.base.is_some(),
            bias: self.bias.is_some(),
            functions,
            is_trained,
            seen: self.norm.is_some(),
        };
        let mut memory = match self.path() {
            #[cfg(feature = "flex")]
            LayerPath::Kernels(isa) => {
                let groups = self.functions.as_ref().map_or(1, |functions| functions.dims()[0]);
                let (basis, activation) = (self.basis, self.activation);
                let layer = DenseLayer { basis, inputs, outputs, groups, activation };
                LayerMemory::of_dense(isa, &layer, parts, batch, threads)
            }
            _ => plain_basis_memory(&self.basis, [inputs, outputs], parts, batch),
        };
        if self.norm.is_some() {
            let (of_norm, plane) = (8 * inputs, 4 * batch * inputs);
            memory.parameters += of_norm;
            memory.gradients += of_norm;
            if self.path() != LayerPath::Plain {
                // What the functions see; with its gradient and what autodiff keeps of the norm.
                memory.forward_scratch += plane;
                memory.backward_scratch += 4 * plane;
            }
        }
        memory
    }
}
