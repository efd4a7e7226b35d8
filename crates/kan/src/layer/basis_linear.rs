//! A layer whose every edge is a sum of functions in closed form.

use burn::config::Config;
use burn::module::{Initializer, Module, Param};
use burn::nn::{LayerNorm, LayerNormConfig};
use burn::tensor::{DType, Device, Shape, Tensor, TensorData};
use updraft_simd::time_layer;

use super::basis_error::BasisConfigError;
use crate::basis::Basis;
use crate::kernels::Activation;
use crate::ops::{BasisParameters, LayerPath, PlainReason, basis_layer};

/// The configuration of a [`BasisLinear`].
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Tensor};
/// use updraft_kan::{Basis, BasisLinearConfig};
///
/// let device = Device::flex();
/// let layer = BasisLinearConfig::new(2, 3, Basis::Chebyshev { degree: 4 }).init(&device);
/// assert_eq!(layer.forward(Tensor::<2>::zeros([4, 2], &device)).dims(), [4, 3]);
/// # }
/// ```
#[derive(Config, Debug)]
pub struct BasisLinearConfig {
    /// Inputs.
    pub in_features: usize,
    /// Outputs.
    pub out_features: usize,
    /// The functions of each edge.
    pub basis: Basis,
    /// Groups of inputs with separate parameters of the functions.
    #[config(default = 1)]
    pub groups: usize,
    /// Whether the parameters of the functions are trained.
    #[config(default = true)]
    pub train_functions: bool,
    /// Whether the input of the functions is normalized over its features; that of the base branch
    /// is not.
    #[config(default = false)]
    pub norm: bool,
    /// The activation of the base branch; `None` means no base branch.
    #[config(default = "Some(Activation::Silu)")]
    pub activation: Option<Activation>,
    /// Whether the outputs have a bias.
    #[config(default = true)]
    pub bias: bool,
    /// Standard deviation of the initial coefficients, times the root of their number at an output.
    #[config(default = 1.0)]
    pub scale: f64,
}

/// A layer of sums of functions in closed form, instead of the splines of a
/// [`KanLinear`](crate::KanLinear).
///
/// ```text
/// y(n,o) = bias(o) + Σ_i [ base(i,o)·φ(x(n,i)) + Σ_j coefficients(i,j,o)·f_j(norm(x(n))(i)) ]
/// ```
///
/// On flex, our kernels evaluate the functions of a few inputs and rows at a time and multiply them
/// while they are in cache; the backward pass evaluates them again and keeps only the input. Other
/// backends store all functions of a batch, with burn's operations.
#[derive(Module, Debug)]
pub struct BasisLinear {
    /// `[in_features, functions, out_features]`.
    pub coefficients: Param<Tensor<3>>,
    /// Parameters of the functions, `[groups, parameters]`, if they have any.
    pub functions: Option<Param<Tensor<2>>>,
    /// Weights of the base branch, `[in_features, out_features]`.
    pub base: Option<Param<Tensor<2>>>,
    /// The bias, `[out_features]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// The norm of the inputs of the functions.
    pub norm: Option<LayerNorm>,
    #[module(skip)]
    pub(crate) basis: Basis,
    #[module(skip)]
    pub(crate) activation: Activation,
    #[module(skip)]
    pub(crate) forced: Option<LayerPath>,
}

impl BasisLinearConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// [`BasisConfigError`] for functions, sizes or groups that no layer has.
    pub fn validate(&self) -> Result<(), BasisConfigError> {
        self.basis.validate().map_err(BasisConfigError::Basis)?;
        BasisConfigError::check_features(self.in_features, self.out_features)?;
        BasisConfigError::check_groups(self.groups, self.in_features)?;
        BasisConfigError::check_scale(self.scale)
    }

    /// Creates the layer.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> BasisLinear {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let (inputs, outputs) = (self.in_features, self.out_features);
        let count = self.basis.count();
        let std = self.scale / ((inputs * count) as f64).sqrt();
        let xavier = Initializer::XavierNormal { gain: 1.0 };
        let edges = [inputs, outputs];
        BasisLinear {
            coefficients: Initializer::Normal { mean: 0.0, std }
                .init([inputs, count, outputs], device),
            functions: functions(&self.basis, self.groups, self.train_functions, device),
            base: self
                .activation
                .map(|_| xavier.init_with(edges, Some(inputs), Some(outputs), device)),
            bias: self.bias.then(|| Param::from_tensor(Tensor::zeros([outputs], device))),
            norm: self.norm.then(|| LayerNormConfig::new(inputs).init(device)),
            basis: self.basis,
            activation: self.activation.unwrap_or_default(),
            forced: None,
        }
    }
}

/// The initial parameters of the functions, the same for each group.
pub(super) fn functions(
    basis: &Basis,
    groups: usize,
    train: bool,
    device: &Device,
) -> Option<Param<Tensor<2>>> {
    let parameters = basis.parameters();
    if parameters.is_empty() {
        return None;
    }
    let shape = [groups, parameters.len()];
    let data = TensorData::new(parameters.repeat(groups), shape).convert_dtype(DType::F32);
    let tensor = Tensor::from_data(data, device);
    Some(Param::from_tensor(tensor).set_require_grad(train))
}

impl BasisLinear {
    /// The outputs, `[..., out_features]`, of `x`, `[..., in_features]`.
    ///
    /// # Panics
    /// If the last axis of `x` is not `in_features`.
    #[must_use]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let [inputs, _, outputs] = self.coefficients.dims();
        let mut shape = x.dims();
        assert_eq!(shape[D - 1], inputs, "BasisLinear: the last axis of x has to be in_features");
        let rows = shape[..D - 1].iter().product::<usize>();
        shape[D - 1] = outputs;
        if rows == 0 {
            // For an empty batch, a row of zeros keeps the gradients connected.
            let row = Tensor::zeros([1, inputs], (&x.device(), x.dtype()));
            let y = self.rows(row) * 0.0;
            return y.sum().reshape([1; D]).expand(Shape::from(shape));
        }
        self.rows(x.reshape([rows, inputs])).reshape(shape)
    }

    /// The functions of each edge.
    #[must_use]
    pub const fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Which implementation computes the layer in f32 on its parameters' device.
    #[must_use]
    pub fn path(&self) -> LayerPath {
        self.picked().unwrap_or(LayerPath::Plain)
    }

    /// Why burn's own operations compute the layer in f32 on its parameters' device; `None` if
    /// kernels do.
    #[must_use]
    pub fn plain_reason(&self) -> Option<PlainReason> {
        self.picked().err()
    }

    fn picked(&self) -> Result<LayerPath, PlainReason> {
        LayerPath::of_basis(self.forced, &self.coefficients.device())
    }

    /// The same layer with a forced implementation.
    ///
    /// Its [`forward`](Self::forward) panics if the device, the processor or the dtype does not support
    /// it; no kernels support f64.
    ///
    /// # Example
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::Device;
    /// use updraft_kan::{Basis, BasisLinearConfig, LayerPath, PlainReason};
    ///
    /// let layer = BasisLinearConfig::new(2, 3, Basis::Rational).init(&Device::flex());
    /// assert_eq!(layer.plain_reason(), None);
    /// let plain = layer.with_path(LayerPath::Plain);
    /// assert_eq!(plain.plain_reason(), Some(PlainReason::Forced));
    /// # }
    /// ```
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        Self { forced: Some(path), ..self }
    }

    fn rows(&self, x: Tensor<2>) -> Tensor<2> {
        time_layer(self.coefficients.id.val(), "KAN layer", || self.outputs(x))
    }

    fn outputs(&self, x: Tensor<2>) -> Tensor<2> {
        let seen = self.norm.as_ref().map(|norm| norm.forward(x.clone()));
        let parameters = BasisParameters {
            basis: self.basis,
            activation: self.activation,
            coefficients: self.coefficients.val(),
            functions: self.functions.as_ref().map(Param::val),
            base: self.base.as_ref().map(Param::val),
            bias: self.bias.as_ref().map(Param::val),
        };
        basis_layer(x, seen, parameters, self.forced)
    }
}
