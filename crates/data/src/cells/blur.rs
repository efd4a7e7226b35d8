//! Blurring by a Gaussian, axis by axis.

/// Blurs `[depth, height, width]` by a Gaussian of these standard deviations in voxels, truncated
/// at four of them; beyond the ends the value at the end is repeated.
pub(super) fn blur(values: &[f32], sides: [usize; 3], sigmas: [f64; 3]) -> Vec<f32> {
    let mut values = values.to_vec();
    for (axis, &sigma) in sigmas.iter().enumerate() {
        let (side, stride) = (sides[axis], sides[axis + 1..].iter().product::<usize>());
        let radius = ((4.0 * sigma).ceil() as usize).min(side - 1);
        if radius == 0 {
            continue;
        }
        let weights: Vec<f64> =
            (0..=radius).map(|at| (-(at as f64 / sigma).powi(2) / 2.0).exp()).collect();
        let sum = weights[0] + 2.0 * weights[1..].iter().sum::<f64>();
        let weights: Vec<f32> = weights.into_iter().map(|weight| (weight / sum) as f32).collect();
        let mut line = vec![0.0; side];
        for first in (0..values.len()).filter(|at| at / stride % side == 0) {
            let places = (0..side).map(|at| first + at * stride);
            places.clone().zip(&mut line).for_each(|(place, value)| *value = values[place]);
            for (at, place) in places.enumerate() {
                let mut sum = weights[0] * line[at];
                for (away, weight) in weights.iter().enumerate().skip(1) {
                    let (low, high) = (at.saturating_sub(away), (at + away).min(side - 1));
                    sum += weight * (line[low] + line[high]);
                }
                values[place] = sum;
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_becomes_a_gaussian_and_an_even_volume_stays_even() {
        let mut point = vec![0.0; 21 * 21];
        point[10 * 21 + 10] = 1.0;
        let blurred = blur(&point, [1, 21, 21], [3.0, 1.5, 1.5]);
        let sum: f32 = blurred.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        let ratio = f64::from(blurred[10 * 21 + 13] / blurred[10 * 21 + 10]);
        assert!((ratio - (-(3.0_f64 / 1.5).powi(2) / 2.0).exp()).abs() < 1e-5, "{ratio}");
        let even = blur(&[2.0; 24], [2, 3, 4], [1.0, 2.0, 3.0]);
        assert!(even.iter().all(|value| (value - 2.0).abs() < 1e-5), "{even:?}");
    }
}
