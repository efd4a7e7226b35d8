//! Cross-entropy of classes with its gradient.

/// The mean cross-entropy of rows of logits, and writes the gradient of each row's logits, divided by
/// the number of rows.
///
/// With smoothing `ε` and `C` classes the target is `1 − ε + ε/C` at a row's label and `ε/C`
/// elsewhere. Terms are added in f64, in the order of the rows.
///
/// # Source
/// Szegedy et al. 2015, arXiv:1512.00567, section 7.
pub(crate) fn cross_entropy(
    logits: &[f32],
    labels: &[u32],
    smoothing: f32,
    slopes: &mut [f32],
) -> f32 {
    let classes = logits.len() / labels.len();
    let (elsewhere, rows) = (smoothing / classes as f32, labels.len() as f32);
    let mut total = 0.0;
    let all = logits.chunks_exact(classes).zip(slopes.chunks_exact_mut(classes));
    for ((logits, slopes), &label) in all.zip(labels) {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for (slope, logit) in slopes.iter_mut().zip(logits) {
            *slope = (logit - largest).exp();
            sum += *slope;
        }
        let log_sum = largest + sum.ln();
        for (class, (slope, logit)) in slopes.iter_mut().zip(logits).enumerate() {
            let at_label = if class == label as usize { 1.0 - smoothing } else { 0.0 };
            let target = at_label + elsewhere;
            if target > 0.0 {
                total += f64::from(target * (log_sum - logit));
            }
            *slope = (*slope / sum - target) / rows;
        }
    }
    (total / f64::from(rows)) as f32
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, scattered, tolerance};

    use super::*;

    #[test]
    fn losses_and_slopes_are_those_of_the_definition() {
        for [rows, classes] in [[1, 1], [1, 2], [5, 3], [70, 30]] {
            let logits: Vec<f32> = scattered(1, rows * classes).iter().map(|x| x * 4.0).collect();
            let labels: Vec<u32> = (0..rows).map(|row| (row * 7 % classes) as u32).collect();
            for smoothing in [0.0_f32, 0.2] {
                let (mut loss, mut expected) = (0.0, Vec::new());
                for (row, &label) in logits.chunks(classes).zip(&labels) {
                    let powers: Vec<f64> = row.iter().map(|&x| f64::from(x).exp()).collect();
                    let sum: f64 = powers.iter().sum();
                    for (class, power) in powers.iter().enumerate() {
                        let hard = if class == label as usize { 1.0 } else { 0.0 };
                        let smoothing = f64::from(smoothing);
                        let target = hard * (1.0 - smoothing) + smoothing / classes as f64;
                        loss -= target * (power / sum).ln() / rows as f64;
                        expected.push((power / sum - target) / rows as f64);
                    }
                }
                let mut slopes = vec![f32::NAN; logits.len()];
                let found = cross_entropy(&logits, &labels, smoothing, &mut slopes);
                assert_close(&[found], &[loss], tolerance::F32);
                assert_close(&slopes, &expected, tolerance::F32);
            }
        }
    }

    #[test]
    fn large_logits_do_not_overflow_and_nan_stays() {
        let mut slopes = [0.0; 2];
        let loss = cross_entropy(&[1e30, -1e30], &[0], 0.0, &mut slopes);
        assert_eq!((loss, slopes), (0.0, [0.0, 0.0]));
        assert!(cross_entropy(&[f32::NAN, 1.0], &[1], 0.0, &mut slopes).is_nan());
        assert!(slopes.iter().all(|slope| slope.is_nan()));
    }
}
