//! Addition of a bias with GELU.

use burn::tensor::{Tensor, activation::gelu};

/// `GELU(x + bias)` with the exact error function.
///
/// # Shapes
/// - `x`: `[batch, tokens, features]`
/// - `bias`: `[features]`
pub(super) fn bias_gelu(x: Tensor<3>, bias: Tensor<1>) -> Tensor<3> {
    gelu(x + bias.unsqueeze())
}
