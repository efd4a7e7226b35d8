//! Placement of knots by data.

use std::fmt;

use crate::grid::{Grid, GridError};

/// The placement of knots by samples.
///
/// Interpolates between knots at the samples' quantiles, with equally many samples in each
/// interval, and knots at equal distances.
///
/// # Source
/// Liu et al. 2024, arXiv:2404.19756, section 2.4 and appendix; `uniform_share` is the `grid_eps`
/// of pykan and efficient-kan, with their value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// 0 is quantiles only, 1 equal distances only.
    pub uniform_share: f64,
    /// How far the domain reaches beyond the samples on each side, in parts of their range.
    pub margin: f64,
}

impl Default for Placement {
    fn default() -> Self {
        Self { uniform_share: 0.02, margin: 0.01 }
    }
}

/// Errors of placing knots by samples.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum PlacementError {
    /// There are no samples, or the last of them is not whole.
    Samples {
        /// Numbers given.
        actual: usize,
        /// Numbers of a sample.
        features: usize,
    },
    /// A number is NaN or infinite.
    Sample {
        /// The sample.
        row: usize,
        /// Its feature.
        feature: usize,
    },
    /// The old grid has knots for another number of features.
    Features {
        /// The grid's.
        grid: usize,
        /// The samples'.
        samples: usize,
    },
    /// The share of equal distances is not from 0 to 1.
    UniformShare {
        /// What was asked for.
        uniform_share: f64,
    },
    /// The margin is negative or not finite.
    Margin {
        /// What was asked for.
        margin: f64,
    },
    /// The samples' range cannot be divided.
    Grid(GridError),
}

impl fmt::Display for PlacementError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Samples { actual, features } => write!(
                formatter,
                "{actual} numbers are no whole samples of {features} features, at least 1"
            ),
            Self::Sample { row, feature } => {
                write!(formatter, "feature {feature} of sample {row} is not finite")
            }
            Self::Features { grid, samples } => write!(
                formatter,
                "the grid has knots for {grid} features, the samples have {samples}"
            ),
            Self::UniformShare { uniform_share } => {
                write!(formatter, "uniform share {uniform_share} is not from 0 to 1")
            }
            Self::Margin { margin } => {
                write!(formatter, "margin {margin} is negative or not finite")
            }
            Self::Grid(ref error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for PlacementError {}

impl Placement {
    /// A grid with as many intervals as `grid`, whose knots are placed by `samples`,
    /// `[count, features]`.
    ///
    /// A feature whose samples are all equal keeps its knots.
    ///
    /// # Errors
    /// [`PlacementError`] for no samples, samples that are not finite, or an invalid
    /// placement.
    pub fn place(
        &self,
        grid: &Grid,
        samples: &[f32],
        features: usize,
    ) -> Result<Grid, PlacementError> {
        self.check()?;
        if features == 0 || samples.is_empty() || !samples.len().is_multiple_of(features) {
            return Err(PlacementError::Samples { actual: samples.len(), features });
        }
        if let Some(place) = samples.iter().position(|sample| !sample.is_finite()) {
            return Err(PlacementError::Sample {
                row: place / features,
                feature: place % features,
            });
        }
        if let Some(known) = grid.features()
            && known != features
        {
            return Err(PlacementError::Features { grid: known, samples: features });
        }
        let mut knots = Vec::with_capacity(features * (grid.intervals() + 2 * grid.degree() + 1));
        for feature in 0..features {
            let mut column: Vec<f32> =
                samples.iter().skip(feature).step_by(features).copied().collect();
            column.sort_unstable_by(f32::total_cmp);
            knots.extend(self.of_feature(grid, feature, &column));
        }
        Grid::per_feature(features, knots, grid.intervals(), grid.degree())
            .map(|placed| placed.with_outside(grid.outside()))
            .map_err(PlacementError::Grid)
    }

    fn check(&self) -> Result<(), PlacementError> {
        let Self { uniform_share, margin } = *self;
        if !(0.0..=1.0).contains(&uniform_share) {
            return Err(PlacementError::UniformShare { uniform_share });
        }
        if !(margin >= 0.0 && margin.is_finite()) {
            return Err(PlacementError::Margin { margin });
        }
        Ok(())
    }

    /// The knots of a feature with sorted samples.
    fn of_feature(&self, grid: &Grid, feature: usize, samples: &[f32]) -> Vec<f32> {
        let (degree, intervals) = (grid.degree() as isize, grid.intervals() as isize);
        let indices = -degree..=intervals + degree;
        let (first, last) = (samples[0], samples[samples.len() - 1]);
        if first == last {
            return indices.map(|index| grid.knot(feature, index) as f32).collect();
        }
        let range = f64::from(last) - f64::from(first);
        let low = f64::from(first) - self.margin * range;
        let step = (1.0 + 2.0 * self.margin) * range / intervals as f64;
        let knot = |index: isize| {
            let even = low + index as f64 * step;
            if index <= 0 || index >= intervals {
                return even;
            }
            let quantile = quantile(samples, index as f64 / intervals as f64);
            self.uniform_share * even + (1.0 - self.uniform_share) * quantile
        };
        indices.map(|index| knot(index) as f32).collect()
    }
}

/// The quantile of the sorted `samples`, interpolated linearly.
fn quantile(samples: &[f32], share: f64) -> f64 {
    let place = share * (samples.len() - 1) as f64;
    let below = place as usize;
    let above = (below + 1).min(samples.len() - 1);
    let [below_value, above_value] = [below, above].map(|index| f64::from(samples[index]));
    below_value + (place - below as f64) * (above_value - below_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid::uniform(-1.0, 1.0, 4, 1).unwrap()
    }

    #[test]
    fn knots_lie_at_the_quantiles_and_reach_beyond_them() {
        let placement = Placement { uniform_share: 0.0, margin: 0.25 };
        let samples = [0.0, 8.0, 1.0, 2.0, 4.0];
        let placed = placement.place(&grid(), &samples, 1).unwrap();
        let knots: Vec<f64> = (-1..=5).map(|index| placed.knot(0, index)).collect();
        assert_eq!(knots, [-5.0, -2.0, 1.0, 2.0, 4.0, 10.0, 13.0]);
    }

    #[test]
    fn a_feature_of_one_value_keeps_its_knots() {
        let samples = [3.0, 0.0, 3.0, 1.0];
        let placed = Placement::default().place(&grid(), &samples, 2).unwrap();
        assert_eq!(
            (-1..=5).map(|i| placed.knot(0, i)).collect::<Vec<_>>(),
            (-1..=5).map(|i| grid().knot(0, i)).collect::<Vec<_>>()
        );
        let (low, high) = placed.domain(1);
        assert!(low < 0.0 && high > 1.0);
    }

    #[test]
    fn samples_that_place_nothing_are_refused_with_their_place() {
        let place = |placement: Placement, samples: &[f32]| {
            placement.place(&grid(), samples, 2).unwrap_err().to_string()
        };
        let usual = Placement::default();
        let no_samples = "0 numbers are no whole samples of 2 features, at least 1";
        assert_eq!(place(usual, &[]), no_samples);
        let nan = "feature 1 of sample 1 is not finite";
        assert_eq!(place(usual, &[0.0, 0.0, 1.0, f32::NAN]), nan);
        let share = Placement { uniform_share: 1.5, ..usual };
        assert_eq!(place(share, &[0.0; 2]), "uniform share 1.5 is not from 0 to 1");
        let margin = Placement { margin: f64::NAN, ..usual };
        assert_eq!(place(margin, &[0.0; 2]), "margin NaN is negative or not finite");
        assert!(place(usual, &[0.0, 0.0, f32::MAX, -f32::MAX]).contains("not finite"));
    }
}
