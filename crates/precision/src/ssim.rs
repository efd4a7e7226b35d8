//! Structural similarity of two images.

use crate::error::PrecisionError;

/// Taps of the Gaussian window, and its standard deviation in pixels (Wang et al., section III.C).
const TAPS: usize = 11;
const SIGMA: f64 = 1.5;

/// The constants K₁ and K₂ that keep the quotients finite (Wang et al., section III.B).
const K1: f64 = 0.01;
const K2: f64 = 0.03;

/// The mean structural similarity of planar images, in `[-1, 1]`; 1 for equal images.
///
/// Every plane of `height × width` values is compared separately, over the positions where the
/// whole 11 × 11 Gaussian window (σ = 1.5) fits, with population statistics; planes and positions
/// are averaged. All arithmetic is in f64.
///
/// `range` is the difference between the largest and the smallest possible value: 255 for bytes,
/// 1 for images in `[0, 1]`.
///
/// # Errors
/// [`PrecisionError::Length`] if the images differ in length, [`PrecisionError::Planes`] if they
/// are not a whole number of planes, or a plane is smaller than the window.
///
/// # Source
/// Wang, Bovik, Sheikh and Simoncelli 2004, "Image quality assessment: from error visibility to
/// structural similarity", equations 13 to 17.
pub fn ssim(
    reference: &[f32],
    result: &[f32],
    (height, width): (usize, usize),
    range: f64,
) -> Result<f64, PrecisionError> {
    if reference.len() != result.len() {
        let (expected, found) = (reference.len(), result.len());
        return Err(PrecisionError::Length { expected, found });
    }
    let plane = height * width;
    if height.min(width) < TAPS || reference.is_empty() || !reference.len().is_multiple_of(plane) {
        return Err(PrecisionError::Planes { values: reference.len(), height, width });
    }
    let window = window();
    let (c1, c2) = ((K1 * range).powi(2), (K2 * range).powi(2));
    let planes = reference.chunks_exact(plane).zip(result.chunks_exact(plane));
    let of_plane = |(r, x): (&[f32], &[f32])| {
        let smoothed = |value: &dyn Fn(f64, f64) -> f64| {
            let values = r.iter().zip(x).map(|(&r, &x)| value(f64::from(r), f64::from(x)));
            smooth(&values.collect::<Vec<_>>(), width, &window)
        };
        let (mean_r, mean_x) = (smoothed(&|r, _| r), smoothed(&|_, x| x));
        let (square_r, square_x) = (smoothed(&|r, _| r * r), smoothed(&|_, x| x * x));
        let product = smoothed(&|r, x| r * x);
        let positions = (0..mean_r.len()).map(|at| {
            let (r, x) = (mean_r[at], mean_x[at]);
            let (variance_r, variance_x) = (square_r[at] - r * r, square_x[at] - x * x);
            let covariance = product[at] - r * x;
            (2.0 * r * x + c1) * (2.0 * covariance + c2)
                / ((r * r + x * x + c1) * (variance_r + variance_x + c2))
        });
        positions.sum::<f64>() / mean_r.len() as f64
    };
    let count = reference.len() / plane;
    Ok(planes.map(of_plane).sum::<f64>() / count as f64)
}

/// A Gaussian whose taps sum to one.
fn window() -> [f64; TAPS] {
    let middle = (TAPS / 2) as f64;
    let tap = |at: usize| (-(at as f64 - middle).powi(2) / (2.0 * SIGMA * SIGMA)).exp();
    let taps: [f64; TAPS] = std::array::from_fn(tap);
    let sum: f64 = taps.iter().sum();
    taps.map(|tap| tap / sum)
}

/// Weighted means over the window, along rows and then columns, where the whole window fits.
fn smooth(values: &[f64], width: usize, window: &[f64; TAPS]) -> Vec<f64> {
    let weigh = |at: &dyn Fn(usize) -> f64| -> f64 {
        window.iter().enumerate().map(|(tap, weight)| weight * at(tap)).sum()
    };
    let narrow = width - TAPS + 1;
    let row =
        |row: &[f64]| -> Vec<f64> { (0..narrow).map(|x| weigh(&|tap| row[x + tap])).collect() };
    let rows: Vec<f64> = values.chunks_exact(width).flat_map(row).collect();
    let positions = 0..rows.len() - (TAPS - 1) * narrow;
    positions.map(|at| weigh(&|tap| rows[at + tap * narrow])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two planes of 16 × 13 values in `[0, 1)`, by a rule that any language can follow.
    fn pattern(shift: usize) -> Vec<f32> {
        (0..2 * 16 * 13).map(|at| ((at * 37 + shift * (at % 5)) % 101) as f32 / 101.0).collect()
    }

    #[test]
    fn equal_images_are_one() {
        let image = pattern(0);
        let similarity = ssim(&image, &image, (16, 13), 1.0).expect("planes");
        assert!((similarity - 1.0).abs() < 1e-12, "{similarity}");
    }

    #[test]
    fn constant_images_follow_the_formula_of_their_means() {
        let (r, x) = (0.25_f32, 0.75_f32);
        let similarity = ssim(&[r; 144], &[x; 144], (12, 12), 1.0).expect("planes");
        let c1 = 1e-4;
        let expected = (2.0 * 0.25 * 0.75 + c1) / (0.25 * 0.25 + 0.75 * 0.75 + c1);
        assert!((similarity - expected).abs() < 1e-12, "{similarity}");
    }

    #[test]
    fn a_pattern_has_the_similarity_that_convolutions_in_torch_give() {
        // torch 2.15.0 in f64: five `conv2d` of the planes with the outer product of the window.
        let similarity = ssim(&pattern(0), &pattern(3), (16, 13), 1.0).expect("planes");
        assert!((similarity - RECORDED).abs() < 1e-9, "{similarity}");
    }

    const RECORDED: f64 = 0.7154133800258128;

    #[test]
    fn images_that_the_window_does_not_fit_are_refused() {
        let refused = ssim(&[0.0; 100], &[0.0; 100], (10, 10), 1.0).expect_err("too small");
        assert!(refused.to_string().contains("10 x 10"), "{refused}");
        assert!(ssim(&[0.0; 145], &[0.0; 145], (12, 12), 1.0).is_err());
        assert!(ssim(&[], &[], (12, 12), 1.0).is_err());
        assert!(ssim(&[0.0; 144], &[0.0; 143], (12, 12), 1.0).is_err());
    }
}
