//! The configuration of a layer.

use std::fmt;

use burn::config::Config;
use burn::module::Param;
use burn::nn::Initializer;
use burn::tensor::Device;
use burn::tensor::Tensor;

use super::linear::KanLinear;
use crate::grid::{Grid, GridError, Outside};
use crate::kernels::{Activation, ConvError, LayerError, LayerGeometry};

/// The configuration of a [`KanLinear`].
///
/// # Source
/// Initialization as in Liu et al. 2024, arXiv:2404.19756, section 2.2: small random coefficients,
/// base weights by Xavier's rule; factors of `1/√in_features`, as in pykan.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Tensor};
/// use updraft_kan::KanLinearConfig;
///
/// let device = Device::flex();
/// let layer = KanLinearConfig::new(2, 3).with_intervals(8).init(&device);
/// let y = layer.forward(Tensor::<2>::zeros([4, 2], &device));
/// assert_eq!(y.dims(), [4, 3]);
/// # }
/// ```
#[derive(Config, Debug)]
pub struct KanLinearConfig {
    /// Inputs.
    pub in_features: usize,
    /// Outputs.
    pub out_features: usize,
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

/// Errors of the configuration of a layer or a network.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum KanConfigError {
    /// The grid is invalid.
    Grid(GridError),
    /// The layer is invalid.
    Layer(LayerError),
    /// The convolution is invalid.
    Conv(ConvError),
    /// A network needs the features of its input and of its output.
    Widths {
        /// How many widths were given.
        count: usize,
    },
    /// The coefficients' standard deviation is negative or not finite.
    NoiseScale {
        /// What was asked for.
        noise_scale: f64,
    },
}

impl fmt::Display for KanConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grid(error) => error.fmt(formatter),
            Self::Layer(error) => error.fmt(formatter),
            Self::Conv(error) => error.fmt(formatter),
            Self::Widths { count } => {
                write!(formatter, "a network needs at least 2 widths, got {count}")
            }
            Self::NoiseScale { noise_scale } => {
                write!(formatter, "noise scale {noise_scale} is negative or not finite")
            }
        }
    }
}

impl std::error::Error for KanConfigError {}

impl KanLinearConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// [`KanConfigError`] for a grid or sizes that no layer has.
    pub fn validate(&self) -> Result<(), KanConfigError> {
        self.geometry()?;
        if !(self.noise_scale.is_finite() && self.noise_scale >= 0.0) {
            return Err(KanConfigError::NoiseScale { noise_scale: self.noise_scale });
        }
        Ok(())
    }

    /// Creates the layer.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    pub fn init(&self, device: &Device) -> KanLinear {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let geometry = self.geometry().expect("validated");
        let (inputs, outputs) = (self.in_features, self.out_features);
        let rooted = 1.0 / (inputs as f64).sqrt();
        // Without factors the coefficients are as small as with them.
        let noise = if self.scaler { self.noise_scale } else { self.noise_scale * rooted };
        let spline = Initializer::Normal { mean: 0.0, std: noise };
        let xavier = Initializer::XavierNormal { gain: 1.0 };
        let edges = [inputs, outputs];
        KanLinear::new(
            spline.init([inputs, geometry.grid().bases(), outputs], device),
            self.activation.map(|_| xavier.init_with(edges, Some(inputs), Some(outputs), device)),
            self.scaler.then(|| Param::from_tensor(Tensor::full(edges, rooted, device))),
            self.bias.then(|| Param::from_tensor(Tensor::zeros([outputs], device))),
            geometry,
        )
    }

    fn geometry(&self) -> Result<LayerGeometry, KanConfigError> {
        let grid = Grid::uniform(self.domain_low, self.domain_high, self.intervals, self.degree)
            .map_err(KanConfigError::Grid)?
            .with_outside(self.outside);
        let activation = self.activation.unwrap_or_default();
        LayerGeometry::try_new(grid, self.in_features, self.out_features, activation)
            .map_err(KanConfigError::Layer)
    }
}
