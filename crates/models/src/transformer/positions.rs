//! Embeddings of the positions of patches.

use burn::module::Param;
use burn::tensor::{Device, Distribution, Tensor, TensorData};

use super::config::Positions;
use super::patches::in_three;

/// The standard deviation of learned positions, class tokens and mask tokens.
pub(super) const STD: f64 = 0.02;

/// The base of the wavelengths (Vaswani et al. 2017, arXiv:1706.03762, section 3.5).
const BASE: f64 = 10_000.0;

/// `[1 + patches, embedding]`: of the class token, then of every patch of a grid.
pub(super) fn positions(
    kind: Positions,
    grid: &[usize],
    embedding: usize,
    device: &Device,
) -> Param<Tensor<2>> {
    let rows = 1 + grid.iter().product::<usize>();
    match kind {
        Positions::SineCosine => {
            let mut values = vec![0.0; embedding];
            values.extend(sine_cosine(grid, embedding));
            let data = TensorData::new(values, [rows, embedding]);
            Param::from_tensor(Tensor::from_data(data, device)).set_require_grad(false)
        }
        Positions::Learned => {
            let data =
                TensorData::new(truncated_normal(rows * embedding, device), [rows, embedding]);
            Param::from_tensor(Tensor::from_data(data, device))
        }
    }
}

/// Sines and cosines of the coordinates of every patch.
///
/// Each axis has an equal part of the embedding: the sines of its coordinate, then the cosines, with
/// wavelengths that grow geometrically. Features left over by the division are 0.
fn sine_cosine(grid: &[usize], embedding: usize) -> Vec<f32> {
    let frequencies = embedding / (2 * grid.len());
    let sides = in_three(grid);
    let mut values = Vec::with_capacity(sides.iter().product::<usize>() * embedding);
    for z in 0..sides[0] {
        for y in 0..sides[1] {
            for x in 0..sides[2] {
                let start = values.len();
                for at in &[z, y, x][3 - grid.len()..] {
                    let angle = |k: usize| *at as f64 / BASE.powf(k as f64 / frequencies as f64);
                    values.extend((0..frequencies).map(|k| angle(k).sin() as f32));
                    values.extend((0..frequencies).map(|k| angle(k).cos() as f32));
                }
                values.resize(start + embedding, 0.0);
            }
        }
    }
    values
}

/// Normal numbers with [`STD`], drawn again beyond two standard deviations.
fn truncated_normal(count: usize, device: &Device) -> Vec<f32> {
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        // 95.4 % are within.
        let drawn = Tensor::<1>::random([count], Distribution::Normal(0.0, 1.0), device);
        let drawn = drawn.into_data();
        let within = drawn.iter::<f32>().filter(|z| z.abs() < 2.0);
        values.extend(within.take(count - values.len()).map(|z| z * STD as f32));
    }
    values
}

/// A token of which every feature is normal with [`STD`].
pub(super) fn token(embedding: usize, device: &Device) -> Param<Tensor<1>> {
    burn::module::Initializer::Normal { mean: 0.0, std: STD }.init([embedding], device)
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Numbers, alone, devices};

    use super::*;

    #[test]
    fn sines_and_cosines_are_those_computed_by_hand() {
        for device in devices() {
            let found = positions(Positions::SineCosine, &[2, 3], 9, &device);
            assert!(!found.is_require_grad());
            let found = found.val().numbers();
            assert_eq!(found.len(), 7 * 9);
            assert_eq!(found[..9], [0.0; 9]);
            // The patch at row 1, column 2: two frequencies per axis, 1 and 1/100.
            let patch = &found[6 * 9..];
            let expected = [1.0_f64.sin(), 0.01_f64.sin(), 1.0_f64.cos(), 0.01_f64.cos()];
            let columns = [2.0_f64.sin(), 0.02_f64.sin(), 2.0_f64.cos(), 0.02_f64.cos(), 0.0];
            for (found, expected) in patch.iter().zip(expected.into_iter().chain(columns)) {
                assert!((found - expected).abs() < 1e-7, "{found} {expected}");
            }
        }
    }

    #[test]
    fn learned_positions_are_normal_without_tails() {
        let _alone = alone();
        for device in devices() {
            device.seed(3);
            let found = positions(Positions::Learned, &[4, 8, 8], 32, &device).val().numbers();
            assert_eq!(found.len(), 257 * 32);
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let square = found.iter().map(|x| x * x).sum::<f64>() / found.len() as f64;
            assert!(mean.abs() < 1e-3, "{mean}");
            // The deviation of a normal distribution that is cut at two deviations is 0.880.
            assert!((square.sqrt() / STD - 0.880).abs() < 0.02, "{square}");
            assert!(found.iter().all(|x| x.abs() <= 2.0 * STD));
        }
    }
}
