//! A convolution that whitens image patches, computed from their second moments.

/// The second moments of image patches, from which a whitening convolution follows.
///
/// Patches are all windows of a side, at every position; the moments are sums of products in f64,
/// not centered.
///
/// # Example
/// ```
/// use updraft_models::PatchMoments;
///
/// let mut moments = PatchMoments::new(1, 2);
/// moments.add(&[1.0, -1.0, 2.0, 0.5], [1, 1, 2, 2]);
/// let filters = moments.whitening(5e-4);
/// assert_eq!(filters.len(), 8 * 4);
/// ```
#[derive(Debug, Clone)]
pub struct PatchMoments {
    channels: usize,
    side: usize,
    /// `[numbers of a patch, the same]`, of which the upper triangle is filled.
    sums: Vec<f64>,
    patches: u64,
}

impl PatchMoments {
    /// No patches yet.
    ///
    /// # Panics
    /// If there are no channels, or the side is 0.
    #[must_use]
    pub fn new(channels: usize, side: usize) -> Self {
        assert!(channels > 0 && side > 0, "a patch has at least one number");
        let numbers = channels * side * side;
        Self { channels, side, sums: vec![0.0; numbers * numbers], patches: 0 }
    }

    /// Adds every patch of a batch of images.
    ///
    /// # Shapes
    /// - `images`: `[batch, channels, height, width]`, the four numbers of `shape`
    ///
    /// # Panics
    /// If `images` does not have the shape, or that has another number of channels.
    pub fn add(&mut self, images: &[f32], shape: [usize; 4]) {
        let [batch, channels, height, width] = shape;
        assert_eq!(channels, self.channels, "the channels of the images");
        assert_eq!(images.len(), shape.iter().product::<usize>(), "the numbers of the images");
        let (side, numbers) = (self.side, self.numbers());
        if height < side || width < side || batch == 0 {
            return;
        }
        let mut patch = vec![0.0_f64; numbers];
        for image in images.chunks_exact(channels * height * width) {
            for (top, left) in
                (0..=height - side).flat_map(|top| (0..=width - side).map(move |left| (top, left)))
            {
                for (at, value) in patch.iter_mut().enumerate() {
                    let (channel, row, column) = (at / (side * side), at / side % side, at % side);
                    let place = (channel * height + top + row) * width + left + column;
                    *value = f64::from(image[place]);
                }
                for (first, row) in self.sums.chunks_exact_mut(numbers).enumerate() {
                    for (sum, value) in row[first..].iter_mut().zip(&patch[first..]) {
                        *sum += patch[first] * value;
                    }
                }
            }
            self.patches += ((height - side + 1) * (width - side + 1)) as u64;
        }
    }

    /// The number of patches so far.
    #[must_use]
    pub const fn patches(&self) -> u64 {
        self.patches
    }

    /// The weights of the whitening convolution, `[2·n, channels, side, side]` with
    /// `n = channels·side²`.
    ///
    /// The first `n` filters are `vᵢ/√(λᵢ + epsilon)` of the eigenvectors `v` and eigenvalues `λ`
    /// of the mean second moment, from the largest eigenvalue on; the others are their negatives.
    /// As `epsilon` approaches 0, outputs of the first `n` are uncorrelated with a second moment of 1;
    /// larger values amplify rare directions, mostly noise, less.
    ///
    /// # Panics
    /// If `epsilon` is not positive and finite, or no patch was added.
    ///
    /// # Source
    /// Jordan 2024, arXiv:2404.00498, section 3.2, with `epsilon` 5e-4; the negatives from Page
    /// 2018, "How to train your `ResNet` 8".
    #[must_use]
    pub fn whitening(&self, epsilon: f64) -> Vec<f32> {
        assert!(epsilon.is_finite() && epsilon > 0.0, "`epsilon` is {epsilon}; expected above 0");
        assert!(self.patches > 0, "whitening needs at least one patch");
        let numbers = self.numbers();
        let mut moments = self.sums.clone();
        for first in 0..numbers {
            for second in first..numbers {
                let mean = self.sums[first * numbers + second] / self.patches as f64;
                moments[first * numbers + second] = mean;
                moments[second * numbers + first] = mean;
            }
        }
        let mut pairs = eigenpairs(moments, numbers);
        pairs.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        let positive: Vec<f32> = pairs
            .iter()
            .flat_map(|(value, vector)| {
                // Rounding makes eigenvalues of 0 slightly negative.
                let scale = (value.max(0.0) + epsilon).sqrt();
                vector.iter().map(move |number| (number / scale) as f32)
            })
            .collect();
        positive.iter().copied().chain(positive.iter().map(|weight| -weight)).collect()
    }

    fn numbers(&self) -> usize {
        self.channels * self.side * self.side
    }
}

/// Sweeps of the Jacobi method; it converges quadratically, and ten suffice for any size in use.
const SWEEPS: usize = 50;

/// Eigenvalues with unit eigenvectors of a symmetric matrix, in no order.
///
/// The entry of largest size in each vector is positive, so that equal matrices give equal vectors.
///
/// # Source
/// The cyclic Jacobi method: Golub and Van Loan 2013, "Matrix Computations", section 8.5.
fn eigenpairs(mut matrix: Vec<f64>, size: usize) -> Vec<(f64, Vec<f64>)> {
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|at| vectors[at * size + at] = 1.0);
    let scale: f64 = matrix.iter().map(|entry| entry * entry).sum();
    for _ in 0..SWEEPS {
        let off: f64 = (0..size)
            .flat_map(|p| (p + 1..size).map(move |q| (p, q)))
            .map(|(p, q)| matrix[p * size + q].powi(2))
            .sum();
        // The square of the rounding of f64: nothing is left to rotate.
        if off <= scale * f64::EPSILON.powi(2) {
            break;
        }
        for (p, q) in (0..size).flat_map(|p| (p + 1..size).map(move |q| (p, q))) {
            let entry = matrix[p * size + q];
            if entry == 0.0 {
                continue;
            }
            let tau = (matrix[q * size + q] - matrix[p * size + p]) / (2.0 * entry);
            let tangent = tau.signum() / (tau.abs() + (1.0 + tau * tau).sqrt());
            let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
            let sine = tangent * cosine;
            let rotate = |matrix: &mut [f64], first: usize, second: usize| {
                let (left, right) = (matrix[first], matrix[second]);
                matrix[first] = cosine * left - sine * right;
                matrix[second] = sine * left + cosine * right;
            };
            for at in 0..size {
                rotate(&mut matrix, at * size + p, at * size + q);
                rotate(&mut vectors, at * size + p, at * size + q);
            }
            for at in 0..size {
                rotate(&mut matrix, p * size + at, q * size + at);
            }
        }
    }
    (0..size)
        .map(|column| {
            let mut vector: Vec<f64> = (0..size).map(|row| vectors[row * size + column]).collect();
            let largest = vector.iter().copied().fold(0.0, |best: f64, number| {
                if number.abs() > best.abs() { number } else { best }
            });
            if largest < 0.0 {
                vector.iter_mut().for_each(|number| *number = -*number);
            }
            (matrix[column * size + column], vector)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Images whose neighboring pixels and channels are correlated: sums of waves.
    fn images(shape: [usize; 4]) -> Vec<f32> {
        let [_, channels, height, width] = shape;
        (0..shape.iter().product())
            .map(|at: usize| {
                let (column, row) = (at % width, at / width % height);
                let (channel, image) =
                    (at / (width * height) % channels, at / (width * height * channels));
                let (image, channel) = (image as f32, channel as f32);
                let wave = (0.3 * image * column as f32 + 0.2 * row as f32 + channel).sin();
                // A hash: a part that no neighbor shares.
                let noise = (at.wrapping_mul(2_654_435_761) >> 7 & 1023) as f32 / 1023.0 - 0.5;
                wave + 0.4 * noise + 0.3
            })
            .collect()
    }

    #[test]
    fn whitened_patches_have_unit_second_moments_and_no_correlation() {
        let shape = [7, 3, 9, 11];
        let images = images(shape);
        let mut moments = PatchMoments::new(3, 2);
        moments.add(&images, shape);
        assert_eq!(moments.patches(), 7 * 8 * 10);
        let filters = moments.whitening(1e-12);
        let mut outputs = [const { Vec::new() }; 12];
        for (image, top, left) in
            (0..7).flat_map(|i| (0..8).flat_map(move |t| (0..10).map(move |l| (i, t, l))))
        {
            for (filter, outputs) in filters.chunks_exact(12).zip(&mut outputs) {
                let products = (0..12).map(|at| {
                    let (channel, row, column) = (at / 4, at / 2 % 2, at % 2);
                    let place = ((image * 3 + channel) * 9 + top + row) * 11 + left + column;
                    f64::from(filter[at]) * f64::from(images[place])
                });
                outputs.push(products.sum::<f64>());
            }
        }
        for first in 0..12 {
            for second in 0..12 {
                let products = outputs[first].iter().zip(&outputs[second]).map(|(a, b)| a * b);
                let mean = products.sum::<f64>() / outputs[first].len() as f64;
                let expected = f64::from(u8::from(first == second));
                assert!((mean - expected).abs() < 1e-3, "{first} {second}: {mean}");
            }
        }
        let (positive, negative) = filters.split_at(12 * 12);
        assert!(positive.iter().zip(negative).all(|(p, n)| *p == -n));
    }

    #[test]
    fn epsilon_limits_the_gain_of_rare_directions() {
        // One pixel of variance 1, the other always 0.
        let mut moments = PatchMoments::new(2, 1);
        moments.add(&[1.0, -1.0, 0.0, 0.0], [1, 2, 1, 2]);
        let filters = moments.whitening(0.25);
        let gains = [1.0 / 1.25_f32.sqrt(), 2.0];
        assert_eq!(filters, [gains[0], 0.0, 0.0, gains[1], -gains[0], -0.0, -0.0, -gains[1]]);
    }

    #[test]
    fn eigenpairs_rebuild_the_matrix() {
        let matrix = vec![4.0, 1.0, -2.0, 1.0, 2.0, 0.5, -2.0, 0.5, 3.0];
        let pairs = eigenpairs(matrix.clone(), 3);
        for (at, entry) in matrix.iter().enumerate() {
            let rebuilt: f64 =
                pairs.iter().map(|(value, vector)| value * vector[at / 3] * vector[at % 3]).sum();
            assert!((rebuilt - entry).abs() < 1e-12, "{at}: {rebuilt} {entry}");
        }
    }

    #[test]
    fn images_smaller_than_a_patch_add_nothing() {
        let mut moments = PatchMoments::new(1, 3);
        moments.add(&[1.0; 8], [2, 1, 2, 2]);
        assert_eq!(moments.patches(), 0);
    }
}
