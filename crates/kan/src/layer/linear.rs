//! A layer whose every edge is a learned spline.

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Shape, Tensor};
use updraft_simd::time_layer;

use super::packed::PackedKanLinear;
use crate::kernels::{Isa, LayerGeometry, LayerMemory, Weights};
use crate::ops::{LayerPath, PackedCache, Parameters, PlainReason, layer, plain_memory};

/// A Kolmogorov–Arnold layer: like a linear layer, with a spline on every edge.
///
/// Created by [`KanLinearConfig`](crate::KanLinearConfig). Records contain only the parameters; the
/// grid is part of the config, and a grid that [`refit`](Self::refit) or [`refine`](Self::refine)
/// has created is stored separately and restored by [`with_grid`](Self::with_grid).
#[derive(Module, Debug)]
pub struct KanLinear {
    /// Coefficients of the splines, `[in_features, bases, out_features]`.
    pub spline: Param<Tensor<3>>,
    /// Weights of the base branch, `[in_features, out_features]`.
    pub base: Option<Param<Tensor<2>>>,
    /// Factors of the splines, `[in_features, out_features]`.
    pub scaler: Option<Param<Tensor<2>>>,
    /// The bias, `[out_features]`.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    pub(super) geometry: Arc<LayerGeometry>,
    #[module(skip)]
    pub(super) forced: Option<LayerPath>,
    #[module(skip)]
    pub(super) cache: PackedCache,
}

impl KanLinear {
    #[allow(clippy::default_constructed_unit_structs, reason = "no unit struct with `flex`")]
    pub(crate) fn new(
        spline: Param<Tensor<3>>,
        base: Option<Param<Tensor<2>>>,
        scaler: Option<Param<Tensor<2>>>,
        bias: Option<Param<Tensor<1>>>,
        geometry: LayerGeometry,
    ) -> Self {
        let (geometry, cache) = (Arc::new(geometry), PackedCache::default());
        Self { spline, base, scaler, bias, geometry, forced: None, cache }
    }

    /// The outputs, `[..., out_features]`, of `x`, `[..., in_features]`.
    ///
    /// # Panics
    /// If the last axis of `x` is not `in_features`.
    #[must_use]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let parameters = Parameters {
            spline: self.spline.val(),
            base: self.base.as_ref().map(Param::val),
            scaler: self.scaler.as_ref().map(Param::val),
            bias: self.bias.as_ref().map(Param::val),
        };
        time_layer(self.spline.id.val(), "KAN layer", || {
            by_rows(x, &self.geometry, |x| {
                layer(x, parameters, &self.geometry, self.forced, &self.cache)
            })
        })
    }

    /// The layer for inference, with packed weights.
    ///
    /// With few samples, packing is most of the time of [`forward`](Self::forward); the outputs are
    /// the same to the bit. It has a copy of the current parameters.
    ///
    /// # Panics
    /// If the forced kernels do not exist on the processor.
    ///
    /// # Example
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Tensor};
    /// use updraft_kan::KanLinearConfig;
    ///
    /// let device = Device::flex();
    /// let layer = KanLinearConfig::new(2, 3).init(&device);
    /// let x = Tensor::<2>::ones([1, 2], &device);
    /// let packed = layer.pack();
    /// assert_eq!(packed.forward(x.clone()).into_data(), layer.forward(x).into_data());
    /// # }
    /// ```
    #[must_use]
    pub fn pack(&self) -> PackedKanLinear {
        PackedKanLinear::of(self)
    }

    /// Which implementation computes the layer in f32 on its parameters' device.
    #[must_use]
    pub fn path(&self) -> LayerPath {
        self.picked().unwrap_or(LayerPath::Plain)
    }

    /// Why burn's own operations compute the layer in f32 on its parameters' device; `None` if
    /// kernels do.
    ///
    /// # Example
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::Device;
    /// use updraft_kan::{KanLinearConfig, LayerPath, PlainReason};
    ///
    /// let layer = KanLinearConfig::new(2, 3).init(&Device::flex());
    /// assert_eq!(layer.plain_reason(), None);
    /// let plain = layer.with_path(LayerPath::Plain);
    /// assert_eq!(plain.plain_reason(), Some(PlainReason::Forced));
    /// # }
    /// ```
    #[must_use]
    pub fn plain_reason(&self) -> Option<PlainReason> {
        self.picked().err()
    }

    fn picked(&self) -> Result<LayerPath, PlainReason> {
        LayerPath::of_splines(self.forced, &self.spline.device(), self.geometry.grid())
    }

    /// The same layer with a forced implementation.
    ///
    /// Its [`forward`](Self::forward) panics if the device, the processor, the dtype or the grid
    /// does not support it; no kernels support f64.
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        Self { forced: Some(path), ..self }
    }

    /// The memory of the passes in f32 on the layer's [`path`](Self::path), for a batch size and a
    /// number of threads.
    ///
    /// On the plain path it is the memory of burn's operations on flex; the kernels for GPUs need
    /// none but that of results.
    ///
    /// # Example
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::Device;
    /// use updraft_kan::{KanLinearConfig, LayerPath};
    ///
    /// let layer = KanLinearConfig::new(784, 64).init(&Device::flex());
    /// let kernels = layer.memory(256, 1);
    /// let plain = layer.with_path(LayerPath::Plain).memory(256, 1);
    /// assert!(kernels.backward_scratch < plain.backward_scratch / 20);
    /// # }
    /// ```
    #[must_use]
    pub fn memory(&self, batch: usize, threads: usize) -> LayerMemory {
        // Only the presence of parameters matters, not their values.
        let given = |is_there: bool| is_there.then_some(&[][..]);
        let weights = Weights {
            spline: &[],
            base: given(self.base.is_some()),
            scaler: given(self.scaler.is_some()),
            bias: given(self.bias.is_some()),
        };
        match self.path() {
            LayerPath::Kernels(isa) => {
                LayerMemory::of(isa, &self.geometry, &weights, batch, threads)
            }
            LayerPath::Cube | LayerPath::CubeIn(_) => {
                let memory = LayerMemory::of(Isa::Portable, &self.geometry, &weights, batch, 1);
                LayerMemory { packed: 0, forward_scratch: 0, backward_scratch: 0, ..memory }
            }
            LayerPath::Plain => plain_memory(&self.geometry, &weights, batch),
        }
    }

    /// The layer's grid and sizes.
    #[must_use]
    pub fn geometry(&self) -> &LayerGeometry {
        &self.geometry
    }
}

/// Flattens all leading axes of `x`, `[..., in_features]`, into one.
pub(super) fn by_rows<const D: usize>(
    x: Tensor<D>,
    geometry: &LayerGeometry,
    compute: impl FnOnce(Tensor<2>) -> Tensor<2>,
) -> Tensor<D> {
    let mut shape = x.dims();
    let inputs = geometry.in_features();
    assert_eq!(shape[D - 1], inputs, "KanLinear: the last axis of x has to be in_features");
    let rows = shape[..D - 1].iter().product::<usize>();
    shape[D - 1] = geometry.out_features();
    if rows == 0 {
        // burn's `reshape` keeps an axis of 0 unchanged.
        return compute(x.flatten(0, D - 2)).sum_dim(0).expand(Shape::from(shape));
    }
    compute(x.reshape([rows, inputs])).reshape(shape)
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::tensor::{Device, Distribution};

    use super::*;
    use crate::KanLinearConfig;

    fn bits(layer: &KanLinear, x: &Tensor<2>) -> Vec<u32> {
        let y = layer.forward(x.clone()).into_data().try_to_vec::<f32>().expect("of f32");
        y.into_iter().map(f32::to_bits).collect()
    }

    fn kernels(layer: &KanLinear) -> bool {
        matches!(layer.path(), LayerPath::Kernels(_))
    }

    #[test]
    fn the_second_pass_packs_the_weights_and_changes_no_bit() {
        let device = Device::flex();
        let layer = KanLinearConfig::new(70, 40).with_bias(true).init(&device);
        assert!(kernels(&layer));
        for batch in [1, 5, 40] {
            let layer = KanLinear { cache: PackedCache::default(), ..layer.clone() };
            let x = Tensor::random([batch, 70], Distribution::Default, &device);
            let first = bits(&layer, &x);
            assert_eq!(layer.cache.bytes(), 0);
            assert_eq!(bits(&layer, &x), first);
            let memory = layer.memory(batch, 1).packed;
            let ratio = memory as f64 / layer.cache.bytes() as f64;
            assert!((0.9..1.1).contains(&ratio), "{ratio}");
            assert_eq!(bits(&layer, &x), first);
        }
    }

    #[test]
    fn packed_weights_are_those_of_the_current_parameters_and_grid() {
        let device = Device::flex();
        let layer = KanLinearConfig::new(6, 20).init(&device);
        let x = Tensor::random([3, 6], Distribution::Default, &device);
        let fresh = |layer: &KanLinear| {
            let layer = KanLinear { cache: PackedCache::default(), ..layer.clone() };
            bits(&layer, &x)
        };
        let settled = |layer: &KanLinear| {
            (0..3).for_each(|_| drop(bits(layer, &x)));
            assert!(layer.cache.bytes() > 0);
            bits(layer, &x)
        };
        let first = settled(&layer);

        let mut other = layer.clone();
        other.spline = other.spline.map(|spline| spline.mul_scalar(0.5));
        assert_ne!(bits(&other, &x), first);
        assert_eq!(settled(&other), fresh(&other));
        assert_eq!(settled(&layer), first);

        let mut scaled = layer.clone();
        scaled.scaler = scaled.scaler.map(|scaler| scaler.map(|scaler| scaler.add_scalar(0.1)));
        assert_eq!(settled(&scaled), fresh(&scaled));

        let grid = crate::grid::Grid::uniform(-2.0, 2.0, 5, 3).expect("five intervals");
        let wider = layer.clone().with_grid(grid).expect("as many coefficients");
        assert_eq!(settled(&wider), fresh(&wider));
        assert_ne!(settled(&wider), first);

        let portable = layer.clone().with_path(LayerPath::Kernels(Isa::Portable));
        assert_eq!(settled(&portable), fresh(&portable));
        assert_eq!(settled(&layer), first);
    }

    #[test]
    fn parameters_that_change_without_another_reference_to_their_numbers_are_packed_again() {
        let device = Device::flex();
        let mut layer = KanLinearConfig::new(6, 20).init(&device);
        let x = Tensor::random([3, 6], Distribution::Default, &device);
        (0..3).for_each(|_| drop(bits(&layer, &x)));
        assert!(layer.cache.bytes() > 0);
        let first = bits(&layer, &x);
        layer.spline = layer.spline.map(|spline| spline.mul_scalar(0.5));
        let changed = bits(&layer, &x);
        assert_ne!(changed, first);
        let fresh = KanLinear { cache: PackedCache::default(), ..layer };
        assert_eq!(bits(&fresh, &x), changed);
    }

    #[cfg(feature = "autodiff")]
    #[test]
    fn training_drops_packed_weights() {
        let device = Device::flex();
        let layer = KanLinearConfig::new(6, 20).init(&device);
        let x = Tensor::<2>::random([3, 6], Distribution::Default, &device);
        (0..2).for_each(|_| drop(layer.forward(x.clone())));
        assert!(layer.cache.bytes() > 0);
        drop(layer.forward(x.autodiff()));
        assert_eq!(layer.cache.bytes(), 0);
    }
}
