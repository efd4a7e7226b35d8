//! Convolutions whose every tap is a sum of functions in closed form.

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Initializer, Module, Param};
use burn::tensor::{Device, Tensor};
use updraft_simd::time_layer;

use super::basis_error::BasisConfigError;
use super::basis_linear::functions;
#[cfg(feature = "flex")]
use super::basis_memory::functions as numbers_of_functions;
use crate::basis::Basis;
use crate::grid::Grid;
use crate::kernels::{Activation, BaseBranch, ConvAxis, ConvError, ConvGeometry, LayerMemory};
#[cfg(feature = "flex")]
use crate::kernels::{BasisParts, DenseConv, DenseLayer};
use crate::ops::{BasisParameters, LayerPath, PlainReason, basis_conv};

macro_rules! convolution {
    ($layer:ident, $config:ident, $axes:literal, $rank:literal, $ones:tt, $zeros:tt, $shape:literal) => {
        #[doc = concat!("How a [`", stringify!($layer), "`] is made.")]
        #[derive(Config, Debug)]
        pub struct $config {
            /// Channels of the input and of the output.
            pub channels: [usize; 2],
            /// Taps along each axis.
            pub kernel_size: [usize; $axes],
            /// The functions of each tap.
            pub basis: Basis,
            /// The stride.
            #[config(default = $ones)]
            pub stride: [usize; $axes],
            /// The zero padding before the first and after the last pixel.
            #[config(default = $zeros)]
            pub padding: [usize; $axes],
            /// The dilation.
            #[config(default = $ones)]
            pub dilation: [usize; $axes],
            /// The number of groups.
            #[config(default = 1)]
            pub groups: usize,
            /// Groups of input channels with separate parameters of the functions.
            #[config(default = 1)]
            pub function_groups: usize,
            /// Whether the parameters of the functions are trained.
            #[config(default = true)]
            pub train_functions: bool,
            /// The activation of the base branch; `None` means no base branch.
            #[config(default = "Some(Activation::Silu)")]
            pub activation: Option<Activation>,
            /// Whether the outputs have a bias.
            #[config(default = true)]
            pub bias: bool,
            /// Standard deviation of the initial coefficients, times the root of their number at an
            /// output.
            #[config(default = 1.0)]
            pub scale: f64,
        }

        impl $config {
            /// Checks the configuration.
            ///
            /// # Errors
            /// [`BasisConfigError`] for functions, sizes or groups that no convolution has.
            pub fn validate(&self) -> Result<(), BasisConfigError> {
                self.basis.validate().map_err(BasisConfigError::Basis)?;
                self.geometry()?;
                BasisConfigError::check_groups(self.function_groups, self.channels[0])?;
                BasisConfigError::check_scale(self.scale)
            }

            /// Creates the convolution.
            ///
            /// # Panics
            /// If [`validate`](Self::validate) returns an error; the message is the error's.
            #[must_use]
            pub fn init(&self, device: &Device) -> $layer {
                if let Err(error) = self.validate() {
                    panic!("{error}");
                }
                let geometry = self.geometry().expect("validated");
                let count = self.basis.count();
                let inputs = geometry.in_channels() * geometry.taps();
                let outputs = geometry.out_channels() / geometry.groups();
                // The inputs of an output.
                let seen = inputs / geometry.groups();
                let std = self.scale / ((seen * count) as f64).sqrt();
                let xavier = Initializer::XavierNormal { gain: 1.0 };
                let bias = || Tensor::zeros([geometry.out_channels()], device);
                $layer {
                    coefficients: Initializer::Normal { mean: 0.0, std }
                        .init([inputs, count, outputs], device),
                    functions: functions(
                        &self.basis,
                        self.function_groups,
                        self.train_functions,
                        device,
                    ),
                    base: self.activation.map(|_| {
                        xavier.init_with([inputs, outputs], Some(seen), Some(outputs), device)
                    }),
                    bias: self.bias.then(|| Param::from_tensor(bias())),
                    basis: self.basis,
                    activation: self.activation.unwrap_or_default(),
                    geometry: Arc::new(geometry),
                    forced: None,
                }
            }

            fn geometry(&self) -> Result<ConvGeometry, BasisConfigError> {
                // The grid is not used; the geometry of a convolution of splines requires one.
                let grid = Grid::uniform(-1.0, 1.0, 1, 0).expect("one interval");
                let axes: [ConvAxis; $axes] = std::array::from_fn(|axis| ConvAxis {
                    kernel: self.kernel_size[axis],
                    stride: self.stride[axis],
                    padding: self.padding[axis],
                    dilation: self.dilation[axis],
                });
                let (activation, base) = (Activation::default(), BaseBranch::ConvOfActivation);
                ConvGeometry::try_new(grid, self.channels, self.groups, &axes, activation, base)
                    .map_err(BasisConfigError::Conv)
            }
        }

        #[doc = concat!("A convolution over ", $shape, " with a sum of functions in closed form instead of every weight.")]
        ///
        #[doc = concat!("Made by [`", stringify!($config), "`](crate::", stringify!($config), ").")]
        /// Padding is zeros of the input, whose functions have values there. On flex, our kernels
        /// evaluate the functions of the pixels of a block once for all taps and multiply them while
        /// they are in cache; the backward pass evaluates them again and keeps only the input. Other
        /// backends store all functions of all pixels, with burn's operations.
        #[derive(Module, Debug)]
        pub struct $layer {
            /// `[in_channels·taps, functions, out_channels / groups]`.
            pub coefficients: Param<Tensor<3>>,
            /// Parameters of the functions, `[function_groups, parameters]`, if they have any.
            pub functions: Option<Param<Tensor<2>>>,
            /// Weights of the base branch, `[in_channels·taps, out_channels / groups]`.
            pub base: Option<Param<Tensor<2>>>,
            /// The bias, `[out_channels]`.
            pub bias: Option<Param<Tensor<1>>>,
            #[module(skip)]
            basis: Basis,
            #[module(skip)]
            activation: Activation,
            #[module(skip)]
            geometry: Arc<ConvGeometry>,
            #[module(skip)]
            forced: Option<LayerPath>,
        }

        impl $layer {
            #[doc = concat!("The outputs, `[batch, out_channels, ", $shape, "]`, of `x`, `[batch, in_channels, ", $shape, "]`.")]
            ///
            /// # Panics
            /// If `x` has other channels, or is smaller than the kernel with its padding.
            #[must_use]
            pub fn forward(&self, x: Tensor<$rank>) -> Tensor<$rank> {
                let parameters = BasisParameters {
                    coefficients: self.coefficients.val(),
                    functions: self.functions.as_ref().map(Param::val),
                    base: self.base.as_ref().map(Param::val),
                    bias: self.bias.as_ref().map(Param::val),
                    basis: self.basis,
                    activation: self.activation,
                };
                time_layer(self.coefficients.id.val(), "KAN convolution", || {
                    basis_conv(x, parameters, &self.geometry, self.forced)
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
                LayerPath::of_basis(self.forced, &self.coefficients.device())
            }

            /// The same convolution with a forced implementation.
            ///
            /// Its [`forward`](Self::forward) panics if the device, the processor or the dtype does
            /// not support it; no kernels support f64.
            #[must_use]
            pub fn with_path(self, path: LayerPath) -> Self {
                Self { forced: Some(path), ..self }
            }

            /// The memory of the passes with the kernels in f32, for a batch of images with these
            /// spatial sizes and a number of threads; `None` on the plain path, where burn's
            /// operations store every function. Parameters of the functions have a gradient if they
            /// are trained, on a device with autodiff.
            ///
            /// # Errors
            /// [`ConvError`](crate::ConvError) if the images are smaller than the kernel.
            pub fn memory(
                &self,
                batch: usize,
                shape: [usize; $axes],
                threads: usize,
            ) -> Result<Option<LayerMemory>, ConvError> {
                let shapes = self.geometry.shapes_of(batch, &shape)?;
                match self.path() {
                    #[cfg(feature = "flex")]
                    LayerPath::Kernels(isa) => {
                        let (functions, is_trained) = numbers_of_functions(&self.functions);
                        let parts = BasisParts {
                            base: self.base.is_some(),
                            bias: self.bias.is_some(),
                            functions,
                            is_trained,
                            seen: false,
                        };
                        let (inputs, [_, _, outputs]) =
                            (self.geometry.in_channels(), self.coefficients.dims());
                        let groups =
                            self.functions.as_ref().map_or(1, |functions| functions.dims()[0]);
                        let (basis, activation) = (self.basis, self.activation);
                        let pixel = DenseLayer { basis, inputs, outputs, groups, activation };
                        let conv = DenseConv { pixel: &pixel, geometry: &self.geometry };
                        Ok(Some(LayerMemory::of_dense_conv(isa, conv, parts, shapes, threads)))
                    }
                    _ => {
                        let _ = (shapes, threads);
                        Ok(None)
                    }
                }
            }

            /// The functions of each tap.
            #[must_use]
            pub const fn basis(&self) -> &Basis {
                &self.basis
            }
        }
    };
}

convolution!(BasisConv1d, BasisConv1dConfig, 1, 3, "[1]", "[0]", "length");
convolution!(BasisConv2d, BasisConv2dConfig, 2, 4, "[1, 1]", "[0, 0]", "height, width");
convolution!(
    BasisConv3d,
    BasisConv3dConfig,
    3,
    5,
    "[1, 1, 1]",
    "[0, 0, 0]",
    "depth, height, width"
);
