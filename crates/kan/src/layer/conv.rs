//! Convolutions whose every tap is a learned spline.

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use updraft_simd::time_layer;

use crate::kernels::{ConvError, ConvGeometry, LayerMemory, Weights};
use crate::ops::{LayerPath, Parameters, PlainReason, conv};

/// A convolution's parameters, initialized by [`KanConv1dConfig`](crate::KanConv1dConfig) and the
/// other configs.
pub(super) struct Drawn {
    pub(super) spline: Param<Tensor<3>>,
    pub(super) base: Option<Param<Tensor<2>>>,
    pub(super) scaler: Option<Param<Tensor<2>>>,
    pub(super) bias: Option<Param<Tensor<1>>>,
    pub(super) geometry: ConvGeometry,
}

macro_rules! convolution {
    ($name:ident, $config:literal, $tensor:literal, $axes:literal, $shape:literal) => {
        #[doc = concat!("A convolution over ", $shape, " with a spline instead of every weight.")]
        ///
        #[doc = concat!("Created by [`", $config, "`](crate::", $config, "). The input is padded")]
        /// with zeros, where splines have a value. Records contain only the parameters; the grid is
        /// part of the config.
        #[derive(Module, Debug)]
        pub struct $name {
            /// Coefficients of the splines, `[in_channels·taps, bases, out_channels / groups]`.
            pub spline: Param<Tensor<3>>,
            /// Weights of the base branch, `[in_channels·taps, out_channels / groups]`.
            pub base: Option<Param<Tensor<2>>>,
            /// Factors of the splines, `[in_channels·taps, out_channels / groups]`.
            pub scaler: Option<Param<Tensor<2>>>,
            /// The bias, `[out_channels]`.
            pub bias: Option<Param<Tensor<1>>>,
            #[module(skip)]
            geometry: Arc<ConvGeometry>,
            #[module(skip)]
            forced: Option<LayerPath>,
        }

        impl $name {
            pub(super) fn new(drawn: Drawn) -> Self {
                let Drawn { spline, base, scaler, bias, geometry } = drawn;
                Self { spline, base, scaler, bias, geometry: Arc::new(geometry), forced: None }
            }

            #[doc = concat!("The outputs, `[batch, out_channels, ", $shape, "]`, of `x`, `[batch, in_channels, ", $shape, "]`.")]
            ///
            /// # Panics
            /// If `x` has other channels, or is smaller than the kernel with its padding.
            #[must_use]
            pub fn forward(&self, x: Tensor<$tensor>) -> Tensor<$tensor> {
                let parameters = Parameters {
                    spline: self.spline.val(),
                    base: self.base.as_ref().map(Param::val),
                    scaler: self.scaler.as_ref().map(Param::val),
                    bias: self.bias.as_ref().map(Param::val),
                };
                time_layer(self.spline.id.val(), "KAN convolution", || {
                    conv(x, parameters, &self.geometry, self.forced)
                })
            }

            /// Which implementation computes the convolution in f32 on its parameters' device.
            #[must_use]
            pub fn path(&self) -> LayerPath {
                self.picked().unwrap_or(LayerPath::Plain)
            }

            /// Why burn's own operations compute the convolution in f32 on its parameters' device;
            /// `None` if kernels do.
            #[must_use]
            pub fn plain_reason(&self) -> Option<PlainReason> {
                self.picked().err()
            }

            fn picked(&self) -> Result<LayerPath, PlainReason> {
                let grid = self.geometry.grid();
                LayerPath::of_splines(self.forced, &self.spline.device(), grid)
            }

            /// The same convolution with a forced implementation.
            ///
            /// Its [`forward`](Self::forward) panics if the device, the processor or the dtype does
            /// not support it; no kernels support f64.
            #[must_use]
            pub fn with_path(self, path: LayerPath) -> Self {
                Self { forced: Some(path), ..self }
            }

            /// The memory of the passes with the kernels for CPUs in f32, for a batch of images
            /// with these spatial sizes and a number of threads; `None` on the plain path, where
            /// burn's operations store every basis function, and on GPUs, where the forms `Sparse`
            /// and `Dense` store nothing, and others patches of at most 64 MiB at a time.
            ///
            /// # Errors
            /// [`ConvError`] if the images are smaller than the kernel.
            pub fn memory(
                &self,
                batch: usize,
                shape: [usize; $axes],
                threads: usize,
            ) -> Result<Option<LayerMemory>, ConvError> {
                // Only the presence of parameters matters, not their values.
                let given = |is_there: bool| is_there.then_some(&[][..]);
                let weights = Weights {
                    spline: &[],
                    base: given(self.base.is_some()),
                    scaler: given(self.scaler.is_some()),
                    bias: given(self.bias.is_some()),
                };
                let LayerPath::Kernels(isa) = self.path() else { return Ok(None) };
                let geometry = &self.geometry;
                LayerMemory::of_conv(isa, geometry, &weights, batch, &shape, threads).map(Some)
            }

            /// The convolution's grid and sizes.
            #[must_use]
            pub fn geometry(&self) -> &ConvGeometry {
                &self.geometry
            }
        }
    };
}

convolution!(KanConv1d, "KanConv1dConfig", 3, 1, "length");
convolution!(KanConv2d, "KanConv2dConfig", 4, 2, "height, width");
convolution!(KanConv3d, "KanConv3dConfig", 5, 3, "depth, height, width");
