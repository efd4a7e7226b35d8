//! Clipping by the global norm of all gradients.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{FloatDType, Tensor};

use crate::error::PrecisionError;
use crate::finite::first_non_finite;

/// Scales all gradients by `min(1, max_norm / norm)` and returns them with their norm.
///
/// `norm = sqrt(Σ_tensors Σ_elements g²)`, over the whole module in module order; sums are taken
/// in f32 axis by axis, so that they do not depend on the number of threads. `None` measures
/// without scaling. The device is read once.
///
/// burn's own `GradientClipping` clips each tensor by itself, which changes the direction of the
/// update; this keeps it.
///
/// # Errors
/// [`PrecisionError::NonFiniteGradient`] naming the first bad tensor, or
/// [`PrecisionError::NormOverflow`] when only their sum of squares is too large.
///
/// # Source
/// Pascanu, Mikolov and Bengio 2013, arXiv:1211.5063, algorithm 1.
pub fn clip_global_norm<M: Module>(
    mut gradients: GradientsParams,
    module: &M,
    max_norm: Option<f64>,
) -> Result<(GradientsParams, f64), PrecisionError> {
    let mut squares = Squares { gradients: &gradients, sums: Vec::new() };
    module.visit(&mut squares);
    let sums = squares.sums;
    if sums.is_empty() {
        return Ok((gradients, 0.0));
    }
    let norm = Tensor::cat(sums, 0).into_data().iter::<f64>().sum::<f64>().sqrt();
    if !norm.is_finite() {
        return Err(match first_non_finite(&gradients, module) {
            Some(path) => PrecisionError::NonFiniteGradient { path },
            None => PrecisionError::NormOverflow,
        });
    }
    if let Some(max_norm) = max_norm
        && norm > max_norm
    {
        module.visit(&mut Scale { gradients: &mut gradients, factor: max_norm / norm });
    }
    Ok((gradients, norm))
}

struct Squares<'a> {
    gradients: &'a GradientsParams,
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.get::<D>(param.id) else { return };
        let wide = gradient.cast(FloatDType::F32);
        let mut squares = wide.clone() * wide;
        for axis in (0..D).rev() {
            squares = squares.sum_dim(axis);
        }
        self.sums.push(squares.reshape([1]));
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.gradients.register(param.id, gradient.mul_scalar(self.factor));
        }
    }
}
