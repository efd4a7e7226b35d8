//! Structural similarity of images and volumes, as a loss.

use burn::tensor::{DType, Device, Tensor, TensorData};

use super::mask::at_least_f32;

/// Half of the window's 11 taps, and the standard deviation of its Gaussian in pixels (Wang et al.,
/// section III.C).
const RADIUS: usize = 5;
const SIGMA: f64 = 1.5;

/// The constants K₁ and K₂ that keep the quotients finite (Wang et al., section III.B).
const K1: f64 = 0.01;
const K2: f64 = 0.03;

/// `1 − SSIM`, the mean over samples, channels and windows; of shape `[1]`.
///
/// The window is a Gaussian of standard deviation 1.5, 11 wide along each axis, at the positions
/// where it fits, with population statistics, K₁ = 0.01 and K₂ = 0.03. These are the numbers of
/// scikit-image's `structural_similarity(gaussian_weights=True, sigma=1.5,
/// use_sample_covariance=False, data_range=…)` for each channel of each sample, in 2D and 3D. Along
/// an axis shorter than 11 the window is the largest odd number of taps that fits, with the
/// truncated Gaussian scaled to a sum of 1; scikit-image refuses such images. It is computed in at
/// least f32 and returned in the dtype of the predictions.
///
/// `data_range` is the difference between the largest and the smallest possible value: 255 for
/// bytes, 1 for images in `[0, 1]`.
///
/// # Shapes
/// - `predictions` and `targets`: `[batch, channels, height, width]` or
///   `[batch, channels, depth, height, width]`
///
/// # Panics
/// If the shapes differ or have fewer than three axes, an axis is empty, or `data_range` is not a
/// finite number above 0.
///
/// # Source
/// Wang, Bovik, Sheikh and Simoncelli 2004, doi:10.1109/TIP.2003.819861, equations 13 to 17.
#[must_use]
pub fn ssim_loss<const D: usize>(
    predictions: Tensor<D>,
    targets: Tensor<D>,
    data_range: f64,
) -> Tensor<1> {
    let dtype = predictions.dtype();
    let similarity = structural_similarity(predictions, targets, data_range);
    similarity.mean().neg().add_scalar(1.0).cast(dtype)
}

/// The mean structural similarity over the windows of each channel of each sample, in at least f32.
///
/// # Shapes
/// - `predictions` and `targets`: as [`ssim_loss`] takes
/// - returns: `[batch, channels]`
///
/// # Panics
/// As [`ssim_loss`].
pub(crate) fn structural_similarity<const D: usize>(
    predictions: Tensor<D>,
    targets: Tensor<D>,
    data_range: f64,
) -> Tensor<2> {
    let dims = predictions.dims();
    assert_eq!(dims, targets.dims(), "predictions and targets have one shape");
    assert!(D > 2, "images are `[batch, channels, …]` with one axis or more, found {dims:?}");
    assert!(!dims.contains(&0), "images have values along every axis, found {dims:?}");
    let is_range = data_range.is_finite() && data_range > 0.0;
    assert!(is_range, "`data_range` is {data_range}; expected above 0");
    let (c1, c2) = ((K1 * data_range).powi(2), (K2 * data_range).powi(2));

    let predictions = at_least_f32(predictions);
    let targets = targets.cast(predictions.dtype());
    let (planes, sides) = (dims[0] * dims[1], &dims[2..]);
    let size = [planes, sides.iter().product::<usize>()];
    // Variances are shift-invariant; subtracting the mean avoids cancellation.
    let centered = |image: Tensor<D>| {
        let image: Tensor<2> = image.reshape(size);
        let center = image.clone().detach().mean_dim(1);
        (image - center.clone(), center)
    };
    let ((x, center_x), (y, center_y)) = (centered(predictions), centered(targets));
    let smooth = |image: Tensor<2>| smooth(image, sides);
    let (mean_x, mean_y) = (smooth(x.clone()), smooth(y.clone()));
    let squares = smooth(x.clone().powi_scalar(2) + y.clone().powi_scalar(2));
    let variances = squares - mean_x.clone().powi_scalar(2) - mean_y.clone().powi_scalar(2);
    let covariance = smooth(x * y) - mean_x.clone() * mean_y.clone();
    let (mean_x, mean_y) = (mean_x + center_x, mean_y + center_y);
    let above = (mean_x.clone() * mean_y.clone()).mul_scalar(2.0).add_scalar(c1)
        * covariance.mul_scalar(2.0).add_scalar(c2);
    let below =
        (mean_x.powi_scalar(2) + mean_y.powi_scalar(2)).add_scalar(c1) * variances.add_scalar(c2);
    (above / below).mean_dim(1).reshape([dims[0], dims[1]])
}

/// The weighted means over the window, where it fits, along one axis after the other.
///
/// Along an axis it is the product with a matrix that has the window in every row: matrix products
/// are fast on every device, forward and backward.
///
/// # Shapes
/// - `image`: `[planes, Π sides]`
/// - returns: `[planes, Π (sides − taps + 1)]`
fn smooth(image: Tensor<2>, sides: &[usize]) -> Tensor<2> {
    let planes = image.dims()[0];
    let (device, dtype) = (image.device(), image.dtype());
    let mut image = image;
    let mut outer = planes;
    for (axis, &side) in sides.iter().enumerate() {
        let inner: usize = sides[axis + 1..].iter().product();
        let windows = windows(side, &device, dtype);
        let positions = windows.dims()[0];
        image = if inner == 1 {
            image.reshape([outer, side]).matmul(windows.transpose())
        } else {
            let windows = windows.unsqueeze::<3>().expand([outer, positions, side]);
            windows.matmul(image.reshape([outer, side, inner])).flatten::<2>(0, 1)
        };
        outer *= positions;
    }
    let values = image.shape().num_elements();
    image.reshape([planes, values / planes])
}

/// The window at each position of an axis where it fits: `[positions, side]`.
fn windows(side: usize, device: &Device, dtype: DType) -> Tensor<2> {
    let radius = RADIUS.min((side - 1) / 2);
    let taps = 2 * radius + 1;
    let tap = |at: usize| (-(at as f64 - radius as f64).powi(2) / (2.0 * SIGMA * SIGMA)).exp();
    let sum: f64 = (0..taps).map(tap).sum();
    let positions = side - taps + 1;
    let mut rows = vec![0.0; positions * side];
    for position in 0..positions {
        for at in 0..taps {
            rows[position * side + position + at] = tap(at) / sum;
        }
    }
    Tensor::from_data(TensorData::new(rows, [positions, side]), (device, dtype))
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Tolerance, assert_close, devices, gradient_check, scattered, tolerance};

    use super::*;

    /// The formula in f64, with its sums over whole windows.
    fn by_definition(x: &[f32], y: &[f32], [height, width]: [usize; 2], range: f64) -> f64 {
        let taps = |side: usize| {
            let radius = ((side - 1) / 2).min(5) as f64;
            let count = 2.0 * radius + 1.0;
            let raw: Vec<f64> =
                (0..count as usize).map(|at| (-(at as f64 - radius).powi(2) / 4.5).exp()).collect();
            let sum: f64 = raw.iter().sum();
            raw.iter().map(|tap| tap / sum).collect::<Vec<f64>>()
        };
        let (rows, columns) = (taps(height), taps(width));
        let (mut total, mut count) = (0.0, 0.0);
        for top in 0..=height - rows.len() {
            for left in 0..=width - columns.len() {
                let mean = |value: &dyn Fn(f64, f64) -> f64| {
                    let mut sum = 0.0;
                    for (i, a) in rows.iter().enumerate() {
                        for (j, b) in columns.iter().enumerate() {
                            let at = (top + i) * width + left + j;
                            sum += a * b * value(f64::from(x[at]), f64::from(y[at]));
                        }
                    }
                    sum
                };
                let (mx, my) = (mean(&|x, _| x), mean(&|_, y| y));
                let vx = mean(&|x, _| (x - mx).powi(2));
                let vy = mean(&|_, y| (y - my).powi(2));
                let vxy = mean(&|x, y| (x - mx) * (y - my));
                let (c1, c2) = ((0.01 * range).powi(2), (0.03 * range).powi(2));
                total += (2.0 * mx * my + c1) * (2.0 * vxy + c2)
                    / ((mx * mx + my * my + c1) * (vx + vy + c2));
                count += 1.0;
            }
        }
        total / count
    }

    fn pair(dims: [usize; 4], device: &Device) -> [Tensor<4>; 2] {
        [3, 4].map(|seed| {
            let values = scattered(seed, dims.iter().product());
            Tensor::from_data(TensorData::new(values, dims), device)
        })
    }

    #[test]
    fn it_is_the_formula_also_where_the_window_is_cut_to_the_image() {
        for device in devices() {
            for sides in [[13, 12], [6, 14], [1, 3]] {
                let [x, y] = pair([1, 1, sides[0], sides[1]], &device);
                let values =
                    |image: &Tensor<4>| image.clone().into_data().iter().collect::<Vec<f32>>();
                let expected = 1.0 - by_definition(&values(&x), &values(&y), sides, 2.0);
                assert_close(&ssim_loss(x, y, 2.0), &[expected], tolerance::F32);
            }
        }
    }

    #[test]
    fn equal_images_lose_nothing_and_values_far_from_zero_keep_their_digits() {
        for device in devices() {
            let [x, y] = pair([2, 2, 12, 13], &device);
            assert_close(&ssim_loss(x.clone(), x.clone(), 2.0), &[0.0], tolerance::F32);
            // Means of 10⁴ make the first factor 1; the second does not depend on them.
            let far = |image: &Tensor<4>| image.clone().cast(DType::F64).add_scalar(1e4);
            let expected = ssim_loss(far(&x), far(&y), 2.0);
            let narrow = |image: &Tensor<4>| far(image).cast(DType::F32);
            let near = Tolerance::new(1e-3, 0.0);
            assert_close(&ssim_loss(narrow(&x), narrow(&y), 2.0), &expected, near);
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_formula_in_2d_and_3d() {
        for device in devices() {
            let [x, y] = pair([1, 2, 12, 4], &device);
            gradient_check(x, |x| ssim_loss(x.clone(), y.clone().to_device(&x.device()), 2.0));
            let [x, y] = pair([1, 3, 4, 6], &device).map(|image| image.unsqueeze::<5>());
            gradient_check(x, |x| ssim_loss(x.clone(), y.clone().to_device(&x.device()), 2.0));
        }
    }

    #[test]
    #[should_panic(expected = "predictions and targets have one shape")]
    fn shapes_that_would_broadcast_are_refused() {
        let device = Device::flex();
        let _ = ssim_loss(
            Tensor::<4>::ones([1, 1, 12, 1], &device),
            Tensor::ones([1, 1, 1, 12], &device),
            1.0,
        );
    }

    #[test]
    #[should_panic(expected = "`data_range` is 0; expected above 0")]
    fn a_range_of_nothing_is_refused() {
        let image = Tensor::<4>::ones([1, 1, 12, 12], &Device::flex());
        let _ = ssim_loss(image.clone(), image, 0.0);
    }
}
