//! The values of a basis on tensors: one number for each input and function.

use burn::tensor::{FloatDType, Tensor};

use crate::basis::{Basis, Number};

impl Number for Tensor<2> {
    fn scaled(self, by: f64) -> Self {
        self.mul_scalar(by)
    }

    fn shifted(self, by: f64) -> Self {
        self.add_scalar(by)
    }

    fn exp(self) -> Self {
        Tensor::exp(self)
    }

    fn tanh(self) -> Self {
        Tensor::tanh(self)
    }

    fn sin(self) -> Self {
        Tensor::sin(self)
    }

    fn cos(self) -> Self {
        Tensor::cos(self)
    }

    fn abs(self) -> Self {
        Tensor::abs(self)
    }

    fn sign(self) -> Self {
        Tensor::sign(self.detach())
    }

    fn recip(self) -> Self {
        Tensor::recip(self)
    }

    fn within(self, limit: f64) -> Self {
        // Not every backend's clamp keeps NaN.
        let is_nan = self.clone().is_nan();
        self.clamp(-limit, limit).mask_fill(is_nan, f32::NAN)
    }
}

/// The values of all functions, `[batch, inputs, functions]`, of `x`, `[batch, inputs]`, in f32 or
/// f64, with the parameters of each group of inputs, `[groups, parameters]`.
pub(crate) fn expand(basis: &Basis, x: Tensor<2>, parameters: Option<Tensor<2>>) -> Tensor<3> {
    let parameters = parameters.map(|all| spread(&all, &x)).unwrap_or_default();
    Tensor::stack(basis.values_of(x, &parameters), 2)
}

/// Each parameter for each input, `[1, inputs]`.
fn spread(parameters: &Tensor<2>, x: &Tensor<2>) -> Vec<Tensor<2>> {
    let ([groups, count], [_, inputs]) = (parameters.dims(), x.dims());
    let of_input = |index: usize| {
        let column = parameters.clone().narrow(1, index, 1).cast(FloatDType::from(x.dtype()));
        column.expand([groups, inputs / groups]).reshape([1, inputs])
    };
    (0..count).map(of_input).collect()
}
