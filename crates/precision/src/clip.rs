//! Clipping by the global norm of all gradients.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{FloatDType, Tensor};

#[cfg(feature = "cube")]
use crate::cube_gradient_parts::gradient_parts;
use crate::error::PrecisionError;
use crate::finite::first_non_finite;
#[cfg(feature = "flex")]
use crate::ops::Taken;

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
    let norm = norm_of(&read_square_sums(&gradients, module));
    if !norm.is_finite() {
        return Err(match first_non_finite(&gradients, module) {
            Some(path) => PrecisionError::NonFiniteGradient { path },
            None => PrecisionError::NormOverflow,
        });
    }
    multiply(&mut gradients, module, clipped_by(norm, max_norm));
    Ok((gradients, norm))
}

/// The sum of squares of each gradient, in module order, still on the device; `None` without
/// gradients.
///
/// Read it together with the other numbers of a step, and pass the numbers to
/// [`LossScaler::unscale_measured`](crate::LossScaler::unscale_measured).
///
/// Where all gradients are in f32 on burn's `flex`, one kernel reads each of them once, with the
/// feature `flex`; on a GPU, with the feature of its backend, one launch reads each of them, and
/// one more adds the sums of their parts. Otherwise burn's operations compute the sums, and
/// [`norm_reason`](crate::norm_reason()) returns why. They differ by rounding, and none depends on
/// the number of threads.
///
/// # Shapes
/// - returns: `[gradients]`
#[must_use]
pub fn square_sums<M: Module>(gradients: &GradientsParams, module: &M) -> Option<Tensor<1>> {
    #[cfg(feature = "flex")]
    if let Some(taken) = taken(gradients, module) {
        return taken.square_sums();
    }
    #[cfg(feature = "cube")]
    if let Some(parts) = gradient_parts(gradients, module) {
        return parts.square_sums();
    }
    let mut squares = Squares { gradients, sums: Vec::new() };
    module.visit(&mut squares);
    (!squares.sums.is_empty()).then(|| Tensor::cat(squares.sums, 0))
}

/// The gradients in module order, if the kernel takes all of them.
#[cfg(feature = "flex")]
fn taken<M: Module>(gradients: &GradientsParams, module: &M) -> Option<Taken> {
    let mut take = Take { gradients, taken: Some(Taken::default()) };
    module.visit(&mut take);
    take.taken
}

/// The sums of squares of all gradients, by one read of the device.
pub(crate) fn read_square_sums<M: Module>(gradients: &GradientsParams, module: &M) -> Vec<f64> {
    square_sums(gradients, module)
        .map_or_else(Vec::new, |sums| sums.into_data().iter::<f64>().collect())
}

/// The global norm of gradients by the numbers of [`square_sums`]; not finite if any gradient is
/// not.
#[must_use]
pub fn norm_of(square_sums: &[f64]) -> f64 {
    square_sums.iter().sum::<f64>().sqrt()
}

/// The factor that reduces a norm to its bound.
pub(crate) fn clipped_by(norm: f64, max_norm: Option<f64>) -> f64 {
    max_norm.map_or(1.0, |max_norm| if norm > max_norm { max_norm / norm } else { 1.0 })
}

/// Multiplies every gradient of the module.
pub(crate) fn multiply<M: Module>(gradients: &mut GradientsParams, module: &M, factor: f64) {
    if factor != 1.0 {
        module.visit(&mut Scale { gradients, factor });
    }
}

#[cfg(feature = "flex")]
struct Take<'a> {
    gradients: &'a GradientsParams,
    /// `None` after a gradient that the kernel does not take.
    taken: Option<Taken>,
}

#[cfg(feature = "flex")]
impl ModuleVisitor for Take<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.get::<D>(param.id) else { return };
        self.taken = self.taken.take().and_then(|taken| taken.with(gradient));
    }
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
