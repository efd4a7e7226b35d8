//! A layer whose every edge is a sum of functions in closed form.

use burn::config::Config;
use burn::module::{Initializer, Module, Param};
use burn::nn::{LayerNorm, LayerNormConfig};
use burn::tensor::{DType, Device, FloatDType, Shape, Tensor, TensorData};
use updraft_simd::time_layer;

use super::basis_error::BasisConfigError;
use crate::basis::Basis;
use crate::kernels::Activation;
use crate::ops::{activate, expand};

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
/// It computes all functions of a batch, then one product of matrices, with burn's operations on
/// every backend.
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

    fn rows(&self, x: Tensor<2>) -> Tensor<2> {
        time_layer(self.coefficients.id.val(), "KAN layer", || self.sums(x))
    }

    fn sums(&self, x: Tensor<2>) -> Tensor<2> {
        let dtype = x.dtype();
        let compute = if dtype == DType::F64 { FloatDType::F64 } else { FloatDType::F32 };
        let [inputs, count, outputs] = self.coefficients.dims();
        let seen = match &self.norm {
            Some(norm) => norm.forward(x.clone()),
            None => x.clone(),
        };
        let parameters = self.functions.as_ref().map(Param::val);
        let values = expand(&self.basis, seen.cast(compute), parameters);
        let [rows, ..] = values.dims();
        let coefficients = self.coefficients.val().cast(compute);
        let mut y = values
            .reshape([rows, inputs * count])
            .matmul(coefficients.reshape([inputs * count, outputs]));
        if let Some(base) = &self.base {
            y = y + activate(x.cast(compute), self.activation).matmul(base.val().cast(compute));
        }
        if let Some(bias) = &self.bias {
            y = y + bias.val().cast(compute).reshape([1, outputs]);
        }
        y.cast(dtype)
    }
}
