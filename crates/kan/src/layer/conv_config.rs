//! The configurations of convolutions.

use burn::config::Config;
use burn::module::Param;
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};

use super::config::KanConfigError;
use super::conv::{Drawn, KanConv1d, KanConv2d, KanConv3d};
use crate::grid::{Grid, Outside};
use crate::kernels::{Activation, BaseBranch, ConvAxis, ConvGeometry};

macro_rules! config {
    ($name:ident, $layer:ident, $axes:literal, $ones:tt, $zeros:tt, $example:literal) => {
        #[doc = concat!("How a [`", stringify!($layer), "`] is made.")]
        ///
        /// # Example
        /// ```
        /// # #[cfg(feature = "flex")] {
        /// use burn::tensor::{Device, Tensor};
        #[doc = concat!("use updraft_kan::", stringify!($name), ";")]
        ///
        #[doc = $example]
        /// # }
        /// ```
        #[derive(Config, Debug)]
        pub struct $name {
            /// Channels of the input and of the output.
            pub channels: [usize; 2],
            /// Taps along each axis.
            pub kernel_size: [usize; $axes],
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
            /// Intervals of each spline inside its domain.
            #[config(default = 5)]
            pub intervals: usize,
            /// The degree of the splines.
            #[config(default = 3)]
            pub degree: usize,
            /// Left end of the splines' domain, in units of the input.
            #[config(default = "-1.0")]
            pub domain_low: f32,
            /// Right end of the splines' domain, in units of the input.
            #[config(default = "1.0")]
            pub domain_high: f32,
            /// The value of splines outside their domain.
            #[config(default = "Outside::Zero")]
            pub outside: Outside,
            /// The activation of the base branch; `None` means no base branch.
            #[config(default = "Some(Activation::Silu)")]
            pub activation: Option<Activation>,
            /// The order of activation and convolution in the base branch.
            #[config(default = "BaseBranch::ConvOfActivation")]
            pub base_branch: BaseBranch,
            /// Whether each spline has its own factor.
            #[config(default = true)]
            pub scaler: bool,
            /// Whether the outputs have a bias.
            #[config(default = false)]
            pub bias: bool,
            /// Standard deviation of the initial coefficients.
            #[config(default = 0.1)]
            pub noise_scale: f64,
        }

        impl $name {
            /// Checks the configuration.
            ///
            /// # Errors
            /// [`KanConfigError`] for a grid, sizes or groups that no convolution has.
            pub fn validate(&self) -> Result<(), KanConfigError> {
                self.geometry()?;
                if !(self.noise_scale.is_finite() && self.noise_scale >= 0.0) {
                    return Err(KanConfigError::NoiseScale { noise_scale: self.noise_scale });
                }
                Ok(())
            }

            /// Creates the convolution, with parameters drawn as those of a linear layer whose
            /// inputs are the taps of a group's channels.
            ///
            /// # Panics
            /// If [`validate`](Self::validate) returns an error; the message is the error's.
            pub fn init(&self, device: &Device) -> $layer {
                if let Err(error) = self.validate() {
                    panic!("{error}");
                }
                let geometry = self.geometry().expect("validated");
                let parts = [self.activation.is_some(), self.scaler, self.bias];
                $layer::new(draw(geometry, parts, self.noise_scale, device))
            }

            fn geometry(&self) -> Result<ConvGeometry, KanConfigError> {
                let (low, high) = (self.domain_low, self.domain_high);
                let grid = Grid::uniform(low, high, self.intervals, self.degree)
                    .map_err(KanConfigError::Grid)?
                    .with_outside(self.outside);
                let axes: [ConvAxis; $axes] = std::array::from_fn(|axis| ConvAxis {
                    kernel: self.kernel_size[axis],
                    stride: self.stride[axis],
                    padding: self.padding[axis],
                    dilation: self.dilation[axis],
                });
                let activation = self.activation.unwrap_or_default();
                let (channels, groups) = (self.channels, self.groups);
                ConvGeometry::try_new(grid, channels, groups, &axes, activation, self.base_branch)
                    .map_err(KanConfigError::Conv)
            }
        }
    };
}

config!(
    KanConv1dConfig,
    KanConv1d,
    1,
    "[1]",
    "[0]",
    "let conv = KanConv1dConfig::new([3, 8], [5]).with_stride([2]).init(&Device::flex());
let y = conv.forward(Tensor::<3>::zeros([4, 3, 33], &Device::flex()));
assert_eq!(y.dims(), [4, 8, 15]);"
);
config!(
    KanConv2dConfig,
    KanConv2d,
    2,
    "[1, 1]",
    "[0, 0]",
    "let conv = KanConv2dConfig::new([3, 8], [3, 3]).with_padding([1, 1]).init(&Device::flex());
let y = conv.forward(Tensor::<4>::zeros([4, 3, 16, 16], &Device::flex()));
assert_eq!(y.dims(), [4, 8, 16, 16]);"
);
config!(
    KanConv3dConfig,
    KanConv3d,
    3,
    "[1, 1, 1]",
    "[0, 0, 0]",
    "let conv = KanConv3dConfig::new([2, 4], [3, 3, 3]).with_groups(2).init(&Device::flex());
let y = conv.forward(Tensor::<5>::zeros([1, 2, 5, 6, 7], &Device::flex()));
assert_eq!(y.dims(), [1, 4, 3, 4, 5]);"
);

/// The initial parameters: base branch, scaler and bias, if they exist.
fn draw(geometry: ConvGeometry, parts: [bool; 3], noise_scale: f64, device: &Device) -> Drawn {
    let [base, scaler, bias] = parts;
    let inputs = geometry.in_channels() * geometry.taps();
    let outputs = geometry.out_channels() / geometry.groups();
    // The inputs of an output.
    let seen = inputs / geometry.groups();
    let rooted = 1.0 / (seen as f64).sqrt();
    // Without factors the coefficients are as small as with them.
    let noise = if scaler { noise_scale } else { noise_scale * rooted };
    let spline = Initializer::Normal { mean: 0.0, std: noise };
    let xavier = Initializer::XavierNormal { gain: 1.0 };
    let edges = [inputs, outputs];
    Drawn {
        spline: spline.init([inputs, geometry.grid().bases(), outputs], device),
        base: base.then(|| xavier.init_with(edges, Some(seen), Some(outputs), device)),
        scaler: scaler.then(|| Param::from_tensor(Tensor::full(edges, rooted, device))),
        bias: bias.then(|| Param::from_tensor(Tensor::zeros([geometry.out_channels()], device))),
        geometry,
    }
}
