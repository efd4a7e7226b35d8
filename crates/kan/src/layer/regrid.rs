//! Layers over other knots.

use std::num::NonZeroUsize;
use std::sync::Arc;

use burn::module::Param;
use burn::tensor::{DType, Tensor, TensorData};

use super::config::KanConfigError;
use super::linear::KanLinear;
use super::network::Kan;
use crate::grid::Grid;
use crate::kernels::{LayerError, LayerGeometry};
use crate::regrid::{Placement, PlacementError, refine, refit};

impl KanLinear {
    /// The layer with knots placed by `samples`, `[..., in_features]`, of its input.
    ///
    /// Its splines keep their values at the samples, by least squares in f64 over the
    /// coefficients only: a factor of a spline multiplies the new curve once, as before.
    /// The coefficients are a new parameter, without optimizer state.
    ///
    /// Separate knots for each feature are evaluated one sample at a time, which is slower than
    /// equal distances.
    ///
    /// # Errors
    /// [`PlacementError`] if knots cannot be placed by the samples.
    ///
    /// # Panics
    /// If the last axis of `samples` is not `in_features`.
    pub fn refit<const D: usize>(
        self,
        samples: Tensor<D>,
        placement: Placement,
    ) -> Result<Self, PlacementError> {
        let features = self.geometry.in_features();
        assert_eq!(samples.dims()[D - 1], features, "the last axis of samples is in_features");
        let samples = numbers(samples);
        let grid = placement.place(self.geometry.grid(), &samples, features)?;
        let spline = numbers(self.spline.val());
        let spline = refit(self.geometry.grid(), &grid, &spline, &samples, features);
        Ok(self.over(grid, spline))
    }

    /// The layer with every interval divided into `pieces`: the same functions inside the domain,
    /// and more coefficients to learn.
    ///
    /// Outside the domain they are the same too, except where a uniform grid fades
    /// ([`Outside::Zero`](crate::Outside::Zero)): it fades over `degree` of its new intervals.
    ///
    /// # Errors
    /// [`KanConfigError::Grid`] if the pieces are too many, or too small to differ in f32.
    pub fn refine(self, pieces: NonZeroUsize) -> Result<Self, KanConfigError> {
        let features = self.geometry.in_features();
        let spline = numbers(self.spline.val());
        let (grid, spline) = refine(self.geometry.grid(), &spline, features, pieces)
            .map_err(KanConfigError::Grid)?;
        Ok(self.over(grid, spline))
    }

    /// The layer with its coefficients over other knots: needed beside a record of the parameters
    /// if the grid is not the config's.
    ///
    /// # Errors
    /// [`KanConfigError::Layer`] if the grid is for other features or another number of
    /// coefficients.
    pub fn with_grid(self, grid: Grid) -> Result<Self, KanConfigError> {
        let [inputs, bases, outputs] = self.spline.dims();
        if grid.bases() != bases {
            let (expected, actual) = (inputs * grid.bases() * outputs, inputs * bases * outputs);
            let name = "spline";
            return Err(KanConfigError::Layer(LayerError::Length { name, expected, actual }));
        }
        let activation = self.geometry.activation();
        let geometry = LayerGeometry::try_new(grid, inputs, outputs, activation)
            .map_err(KanConfigError::Layer)?;
        Ok(Self { geometry: Arc::new(geometry), ..self })
    }

    /// The same layer with new coefficients over a new grid.
    fn over(self, grid: Grid, spline: Vec<f32>) -> Self {
        let [inputs, _, outputs] = self.spline.dims();
        let shape = [inputs, grid.bases(), outputs];
        let options = (&self.spline.device(), self.spline.val().dtype());
        let learns = self.spline.is_require_grad();
        let spline = Tensor::from_data(TensorData::new(spline, shape), options);
        let activation = self.geometry.activation();
        let geometry = LayerGeometry::try_new(grid, inputs, outputs, activation)
            .expect("a grid made of the layer's fits it");
        Self {
            spline: Param::from_tensor(spline).set_require_grad(learns),
            geometry: Arc::new(geometry),
            ..self
        }
    }
}

impl Kan {
    /// The network with every layer [refit](KanLinear::refit) to its inputs when the network
    /// reads `samples`, `[..., first width]`.
    ///
    /// # Errors
    /// [`PlacementError`] of the first layer whose knots cannot be placed by its inputs.
    ///
    /// # Panics
    /// If the last axis of `samples` is not the first width.
    pub fn refit<const D: usize>(
        self,
        samples: Tensor<D>,
        placement: Placement,
    ) -> Result<Self, PlacementError> {
        let mut reaching = samples.detach();
        let mut layers = Vec::with_capacity(self.layers.len());
        for layer in self.layers {
            let next = layer.forward(reaching.clone()).detach();
            layers.push(layer.refit(reaching, placement)?);
            reaching = next;
        }
        Ok(Self { layers })
    }

    /// The network with every layer [refined](KanLinear::refine).
    ///
    /// # Errors
    /// [`KanConfigError::Grid`] if the pieces are too many, or too small to differ in f32.
    pub fn refine(self, pieces: NonZeroUsize) -> Result<Self, KanConfigError> {
        let layers = self.layers.into_iter().map(|layer| layer.refine(pieces));
        Ok(Self { layers: layers.collect::<Result<_, _>>()? })
    }
}

/// A tensor's numbers in f32.
pub(super) fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.detach().into_data().convert_dtype(DType::F32);
    data.try_into_vec().expect("f32 was asked for")
}
