//! Numbers rounded to the codes of a quantization and back, with learnt steps.

#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(super) mod gradient;

use burn::tensor::{FloatDType, Tensor, assert_shape};
use updraft_simd::{mark_plain, time_operation};

use super::path::LayerPath;

/// Rounds numbers to the codes of a quantization and back: `y = code(x)·step`, where `code(x)` is
/// `x/step` rounded to even and clipped to `lowest..=lowest + levels`.
///
/// The gradient passes straight through the rounding where nothing is clipped. That of a step sums
/// `dy·(code − x/step)`, or `dy·code` where it is clipped, and is divided by `√(N·Q)`, for a step
/// of `N` numbers (of one sample, where there is a single step for all) and `Q = levels`, halved if
/// the steps belong to channels, whose codes are symmetric.
///
/// On flex it runs our kernels on several threads; bf16 and f16 are computed in f32. f64, and every
/// other backend, use burn's own operations, with the same result.
///
/// # Shapes
/// - `x`: any; `[batch, …]` with a single step, else `[channels, …]`
/// - `steps`: `[1]` or `[channels]`, positive
/// - `lowest`: `[1]`, a whole number; it has no gradient
///
/// # Panics
/// If the shapes differ from these, or `levels` is 0 or above 2²².
///
/// # Source
/// Esser et al. 2020, "Learned step size quantization", arXiv:1902.08153, equations 1 to 5.
#[must_use]
pub fn fake_quantize<const D: usize>(
    x: Tensor<D>,
    steps: Tensor<1>,
    lowest: Tensor<1>,
    levels: u32,
) -> Tensor<D> {
    assert_shape!(lowest, [1]);
    let [channels] = steps.dims();
    let of_first_axis = x.dims()[0];
    assert!(
        channels == 1 || channels == of_first_axis,
        "fake_quantize: expected 1 step or {of_first_axis}, got {channels}"
    );
    assert!((1..=1 << 22).contains(&levels), "fake_quantize: {levels} levels");
    let (dtype, device) = (x.dtype(), x.device());
    match LayerPath::picked(None, &device, dtype) {
        LayerPath::Plain | LayerPath::Cube => {
            time_operation("fake quantization", || plain(x, steps, lowest, levels))
        }
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => {
            use burn::backend::Dispatch;

            use super::extension::ConvBackend;

            let [x, steps, lowest] = [
                x.cast(FloatDType::F32).into_dispatch(),
                steps.cast(FloatDType::F32).into_dispatch(),
                lowest.cast(FloatDType::F32).into_dispatch(),
            ];
            let y = time_operation("fake quantization", || {
                Dispatch::fake_quantization(x, steps, lowest, levels, isa)
            });
            Tensor::<D>::from_dispatch(y).cast(dtype)
        }
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => unreachable!("kernels are picked where they are compiled"),
    }
}

/// The factor of the steps' gradients.
fn gradient_scale(dims: &[usize], steps: usize, levels: u32) -> f32 {
    let each: usize = dims.iter().skip(1).product();
    let greatest = if steps == 1 { f64::from(levels) } else { f64::from(levels) / 2.0 };
    (1.0 / (each.max(1) as f64 * greatest).sqrt()) as f32
}

/// The same by burn's operations.
fn plain<const D: usize>(
    x: Tensor<D>,
    steps: Tensor<1>,
    lowest: Tensor<1>,
    levels: u32,
) -> Tensor<D> {
    mark_plain();
    let [count] = steps.dims();
    let mut each = [1; D];
    each[0] = count;
    let is_differentiated = x.device().is_autodiff();
    let dtype = FloatDType::from(x.dtype());
    let steps = steps.cast(dtype);
    let steps = match is_differentiated {
        // The value of the steps, with a scaled gradient.
        true => {
            let scale = gradient_scale(&x.dims(), count, levels);
            let scaled = steps.clone().mul_scalar(scale);
            scaled.clone() + (steps - scaled).detach()
        }
        false => steps,
    };
    let (steps, lowest) = (steps.reshape(each), lowest.cast(dtype).detach().reshape([1; D]));
    let level = x / steps.clone() - lowest.clone();
    let clipped = level.clamp(0.0, f64::from(levels));
    let rounded = match is_differentiated {
        true => clipped.clone() + (clipped.clone().round() - clipped).detach(),
        false => clipped.round(),
    };
    (rounded + lowest) * steps
}
