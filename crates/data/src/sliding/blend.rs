//! The weights by which overlapping windows are averaged.

use serde::{Deserialize, Serialize};

/// The weights of overlapping windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Blend {
    /// All voxels of a window have the same weight.
    Constant,
    /// Weights decrease with the distance from the window's center: `Π exp(−(x − c)² / 2(σ ·
    /// side)²)` over the axes with the center `c = (side − 1) / 2`, at least 1e-3.
    ///
    /// # Source
    /// The Gaussian is that of F. Isensee et al., "nnU-Net", 2021, supplementary note 2; center and
    /// floor are those of MONAI 1.6.1 (`compute_importance_map`).
    Gaussian {
        /// The standard deviation as a share of the window's side: one for all axes, or one each.
        sigma: Vec<f64>,
    },
}

/// The smallest weight of a voxel.
const FLOOR: f64 = 1e-3;

impl Blend {
    /// The weights of a window, row by row.
    pub(super) fn weights(&self, sides: [usize; 3], axes: &[usize]) -> Vec<f32> {
        let Self::Gaussian { sigma } = self else { return vec![1.0; sides.iter().product()] };
        let mut weights = vec![1.0_f64];
        for (axis, &side) in sides.iter().enumerate() {
            // The depth axis of a picture has one position, the center.
            let own = axes.iter().position(|&own| own == axis).unwrap_or(0);
            let scale = sigma[own.min(sigma.len() - 1)] * side as f64;
            let center = (side as f64 - 1.0) / 2.0;
            let line = (0..side).map(|at| (-((at as f64 - center) / scale).powi(2) / 2.0).exp());
            let line: Vec<f64> = line.collect();
            weights =
                weights.iter().flat_map(|weight| line.iter().map(move |w| weight * w)).collect();
        }
        let least = weights.iter().copied().fold(f64::INFINITY, f64::min).max(FLOOR);
        weights.into_iter().map(|weight| weight.max(least) as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `compute_importance_map((n,), "gaussian", 0.125)` of MONAI 1.6.1, torch 2.15.0.
    const FOUR: [f32; 4] = [0.011_108_996, 0.606_530_67, 0.606_530_67, 0.011_108_996];
    const SIXTEEN: [f32; 4] = [0.001, 0.005_086_069_5, 0.022_794_181, 0.079_559_51];

    #[test]
    fn weights_are_those_of_monai_with_its_floor() {
        let blend = Blend::Gaussian { sigma: vec![0.125] };
        for (got, expected) in blend.weights([1, 1, 4], &[0, 2]).into_iter().zip(FOUR) {
            assert!((got - expected).abs() < 1e-6, "{got} {expected}");
        }
        for (got, expected) in blend.weights([16, 1, 1], &[0, 2]).into_iter().zip(SIXTEEN) {
            assert!((got - expected).abs() < 1e-6, "{got} {expected}");
        }
        assert_eq!(Blend::Constant.weights([1, 2, 2], &[0, 2]), [1.0; 4]);
    }
}
