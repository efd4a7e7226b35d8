//! The two passes of a convolution, by either convention of the base branch.

use updraft_simd::Isa;

use super::backward::backward;
use super::error::ConvError;
use super::forward::forward;
use super::geometry::{BaseBranch, ConvGeometry};
use crate::kernels::activation::Activation;
use crate::kernels::cpu::{activate, multiply_by_slope};
use crate::kernels::geometry::{Gradients, LayerError, LayerGeometry, Weights, length};
use crate::kernels::scratch::Scratch;

/// Computes a convolution's outputs `y`, `[batch, out_channels, pixels]`, from images `x`,
/// `[batch, in_channels, shape]`.
///
/// On one instruction set, the result is bitwise equal for any number of threads; 0 means 1.
/// Without the feature `rayon` there is one thread.
///
/// NaN in `x` propagates to every output with a tap on it; so does infinity, if the base branch's
/// function or the rule outside the domain has no finite value there.
///
/// # Errors
/// [`ConvError`] if a slice or the shape does not fit the geometry or the CPU lacks the
/// instructions; nothing has been written then.
///
/// # Example
/// ```
/// use updraft_kan::slices::{
///     Activation, BaseBranch, ConvAxis, ConvGeometry, Grid, Isa, Scratch, Weights, conv_forward,
/// };
///
/// // Two taps of linear splines with the values 0, 1, 2 at 0, 1, 2: each adds its pixel.
/// let grid = Grid::uniform(0.0, 2.0, 2, 1)?;
/// let base = BaseBranch::ConvOfActivation;
/// let geometry =
///     ConvGeometry::try_new(grid, [1, 1], 1, &[ConvAxis::new(2)], Activation::Silu, base)?;
/// let spline = [0.0, 1.0, 2.0, 0.0, 1.0, 2.0];
/// let weights = Weights { spline: &spline, ..Weights::default() };
/// let (x, mut y) = ([0.5, 1.0, 0.25], [0.0; 2]);
/// let mut scratch = Scratch::new();
/// conv_forward(Isa::detect(), &geometry, weights, &x, &[3], &mut y, &mut scratch, 1)?;
/// assert_eq!(y, [1.5, 1.25]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
pub fn conv_forward(
    isa: Isa,
    geometry: &ConvGeometry,
    weights: Weights<'_>,
    x: &[f32],
    shape: &[usize],
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) -> Result<(), ConvError> {
    geometry.check(&weights)?;
    let shapes = geometry.shapes(x, shape)?;
    let images = shapes.batch.saturating_mul(geometry.out_channels());
    length("y", images.saturating_mul(shapes.out_pixels()), y)?;
    if !isa.is_available() {
        return Err(LayerError::Isa { isa }.into());
    }
    match geometry.base_branch {
        BaseBranch::ActivationOfConv if weights.base.is_some() => {
            let splines = Weights { base: None, ..weights };
            forward(isa, geometry, &splines, true, shapes, x, y, scratch, threads);
            let (linear, alone) = (linear(geometry), base_alone(weights));
            let mut sums = vec![0.0; y.len()];
            forward(isa, &linear, &alone, false, shapes, x, &mut sums, scratch, threads);
            activate(isa.vectors(), geometry.activation(), &sums, y);
        }
        _ => forward(isa, geometry, &weights, true, shapes, x, y, scratch, threads),
    }
    Ok(())
}

/// Computes the gradients of `Σ y·dy`, for `x`, `[batch, in_channels, shape]`, and `dy`,
/// `[batch, out_channels, pixels]`.
///
/// `gradients` is overwritten. On one instruction set, the result is bitwise equal
/// for any number of threads; 0 means 1. Only the input of the forward pass is needed.
///
/// NaN in `x` makes all gradients of its channel's coefficients NaN. Non-finite values in `dy`
/// propagate to the gradients of the pixels and the weights of its output. Beyond the outputs `dy`
/// counts as zero, whose product with an infinite coefficient is NaN.
///
/// # Errors
/// [`ConvError`] if a slice or the shape does not fit the geometry, a gradient is requested for a
/// parameter that the layer does not have, or the CPU lacks the instructions; nothing has been
/// written then.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
pub fn conv_backward(
    isa: Isa,
    geometry: &ConvGeometry,
    weights: Weights<'_>,
    x: &[f32],
    shape: &[usize],
    dy: &[f32],
    gradients: Gradients<'_>,
    scratch: &mut Scratch,
    threads: usize,
) -> Result<(), ConvError> {
    geometry.check(&weights)?;
    let shapes = geometry.shapes(x, shape)?;
    let images = shapes.batch.saturating_mul(geometry.out_channels());
    length("dy", images.saturating_mul(shapes.out_pixels()), dy)?;
    geometry.check_gradients(&weights, x.len(), &gradients)?;
    if !isa.is_available() {
        return Err(LayerError::Isa { isa }.into());
    }
    if geometry.base_branch == BaseBranch::ConvOfActivation || weights.base.is_none() {
        backward(isa, geometry, &weights, true, shapes, x, dy, gradients, scratch, threads);
        return Ok(());
    }
    let Gradients { x: mut of_x, spline, base, scaler, bias } = gradients;
    let splines = Weights { base: None, ..weights };
    let of_splines = Gradients { x: of_x.as_deref_mut(), spline, base: None, scaler, bias };
    backward(isa, geometry, &splines, true, shapes, x, dy, of_splines, scratch, threads);
    if of_x.is_none() && base.is_none() {
        return Ok(());
    }
    let (linear, alone) = (linear(geometry), base_alone(weights));
    let mut sums = vec![0.0; dy.len()];
    forward(isa, &linear, &alone, false, shapes, x, &mut sums, scratch, threads);
    multiply_by_slope(isa.vectors(), geometry.activation(), dy, &mut sums);
    let mut more = of_x.as_ref().map(|of_x| vec![0.0; of_x.len()]);
    let of_base = Gradients { x: more.as_deref_mut(), base, ..Gradients::default() };
    backward(isa, &linear, &alone, false, shapes, x, &sums, of_base, scratch, threads);
    if let (Some(of_x), Some(more)) = (of_x, more) {
        for (of_x, more) in of_x.iter_mut().zip(more) {
            *of_x += more;
        }
    }
    Ok(())
}

/// The same convolution, whose base branch is linear.
fn linear(geometry: &ConvGeometry) -> ConvGeometry {
    let pixel = &geometry.pixel;
    let (inputs, outputs) = (pixel.in_features(), pixel.out_features());
    let pixel = LayerGeometry::try_new(pixel.grid().clone(), inputs, outputs, Activation::Identity);
    ConvGeometry { pixel: pixel.expect("only the activation differs"), ..geometry.clone() }
}

/// The base branch without bias and factors.
pub(super) fn base_alone(weights: Weights<'_>) -> Weights<'_> {
    Weights { scaler: None, bias: None, ..weights }
}
