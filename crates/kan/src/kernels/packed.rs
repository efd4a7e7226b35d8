//! A layer whose weights are packed once, for inference.

use std::sync::Arc;

use updraft_simd::Isa;

use super::cpu::{ForwardJob, numbers_of_all, pack_all};
use super::forward::in_tasks;
use super::geometry::{LayerError, LayerGeometry, Weights, length};
use super::scratch::{Aligned, Scratch};

/// A layer for inference: its coefficients, times their factors, and its base weights are in the
/// order in which the kernels of one instruction set read them.
///
/// [`forward`](super::forward()) packs them in every call; with few samples that
/// takes longer than the products. The results of both are the same to the bit. A clone shares the
/// weights.
#[derive(Debug, Clone)]
pub struct PackedLayer {
    isa: Isa,
    geometry: LayerGeometry,
    has_base: bool,
    weights: Arc<Aligned>,
    bias: Option<Arc<[f32]>>,
}

impl PackedLayer {
    /// Packs a layer's weights for an instruction set.
    ///
    /// # Errors
    /// [`LayerError`] if a slice does not fit the geometry or the CPU lacks the instructions.
    ///
    /// # Example
    /// ```
    /// use updraft_kan::slices::{
    ///     Activation, Grid, Isa, LayerGeometry, PackedLayer, Scratch, Weights,
    /// };
    ///
    /// // One input, one output, a linear spline with the values 3, 5 and 4 at 0, 1 and 2.
    /// let grid = Grid::uniform(0.0, 2.0, 2, 1)?;
    /// let geometry = LayerGeometry::try_new(grid, 1, 1, Activation::Silu)?;
    /// let weights = Weights { spline: &[3.0, 5.0, 4.0], ..Weights::default() };
    /// let layer = PackedLayer::try_new(Isa::detect(), &geometry, weights)?;
    /// let (mut y, mut scratch) = ([0.0; 2], Scratch::new());
    /// layer.forward(&[0.5, 1.5], &mut y, &mut scratch, 1)?;
    /// assert_eq!(y, [4.0, 4.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_new(
        isa: Isa,
        geometry: &LayerGeometry,
        weights: Weights<'_>,
    ) -> Result<Self, LayerError> {
        geometry.check(&weights, &[])?;
        if !isa.is_available() {
            return Err(LayerError::Isa { isa });
        }
        let mut packed = Aligned::default();
        pack_all(isa, geometry, &weights, packed.grown(numbers_of_all(isa, geometry, &weights)));
        Ok(Self {
            isa,
            geometry: geometry.clone(),
            has_base: weights.base.is_some(),
            weights: Arc::new(packed),
            bias: weights.bias.map(Arc::from),
        })
    }

    /// Computes the layer's outputs `y`, `[batch, out_features]`, from `x`, `[batch, in_features]`,
    /// as [`forward`](super::forward()) does.
    ///
    /// # Errors
    /// [`LayerError`] if a slice does not fit; nothing has been written then.
    pub fn forward(
        &self,
        x: &[f32],
        y: &mut [f32],
        scratch: &mut Scratch,
        threads: usize,
    ) -> Result<(), LayerError> {
        let batch = self.geometry.samples(x)?;
        length("y", batch.saturating_mul(self.geometry.out_features()), y)?;
        // Only the presence of parameters matters, not their values.
        let weights = Weights {
            spline: &[],
            base: self.has_base.then_some(&[]),
            scaler: None,
            bias: self.bias.as_deref(),
        };
        let count = numbers_of_all(self.isa, &self.geometry, &weights);
        let job = ForwardJob {
            geometry: &self.geometry,
            weights,
            packed: Some(self.weights.numbers(count)),
            x,
        };
        in_tasks(self.isa, &job, y, scratch, threads);
        Ok(())
    }

    /// The instruction set of the packed weights.
    #[must_use]
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    /// The layer's grid and sizes.
    #[must_use]
    pub const fn geometry(&self) -> &LayerGeometry {
        &self.geometry
    }

    /// Bytes of the weights and biases.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.weights.bytes() + self.bias.as_deref().map_or(0, size_of_val)
    }
}
