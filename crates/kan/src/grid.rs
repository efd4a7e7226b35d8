//! The knots of a layer's splines.

use std::fmt;

#[cfg(feature = "serde")]
use crate::grid_record::GridRecord;

/// The highest degree a spline may have.
///
/// Evaluation keeps `degree + 1` numbers on the stack; beyond ten, rounding errors outweigh the
/// gain of a higher degree.
pub const MAX_DEGREE: usize = 15;

/// The most intervals a spline may have.
///
/// With more of them, f32 has few inputs left for each.
pub const MAX_INTERVALS: usize = 1 << 20;

/// The value of a spline outside its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Outside {
    /// The bases end where their knots end: the spline fades to zero over `degree` intervals
    /// beyond each end of the domain. This is what pykan and efficient-kan compute.
    #[default]
    Zero,
    /// The value at the nearest end; the slope is zero.
    Clamp,
    /// The polynomials of the first and the last interval are continued.
    Extend,
}

/// The knots of all splines of a layer.
///
/// There are `intervals` pieces of degree `degree` in the domain and `degree` more on each side, so
/// that every spline has `intervals + degree` bases and `intervals + 2·degree + 1` knots.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "GridRecord", try_from = "GridRecord"))]
pub struct Grid {
    degree: usize,
    intervals: usize,
    outside: Outside,
    knots: Knots,
}

#[derive(Debug, Clone, PartialEq)]
enum Knots {
    Uniform {
        low: f32,
        high: f32,
    },
    /// `[features][intervals + 2·degree + 1]`.
    PerFeature {
        features: usize,
        knots: Vec<f32>,
    },
}

/// Errors of building a grid.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum GridError {
    /// The domain is empty.
    EmptyDomain {
        /// Left end, in units of the input.
        low: f32,
        /// Right end, in units of the input.
        high: f32,
    },
    /// A spline needs at least one interval.
    NoIntervals,
    /// There are more intervals than [`MAX_INTERVALS`].
    Intervals {
        /// How many were asked for.
        intervals: usize,
    },
    /// The degree is above [`MAX_DEGREE`].
    Degree {
        /// What was asked for.
        degree: usize,
    },
    /// There are more or fewer knots than the grid has.
    KnotCount {
        /// `features · (intervals + 2·degree + 1)`.
        expected: usize,
        /// How many were given.
        actual: usize,
    },
    /// One feature has more or fewer knots than the others.
    KnotsOfFeature {
        /// The feature.
        feature: usize,
        /// `intervals + 2·degree + 1`.
        expected: usize,
        /// How many it has.
        actual: usize,
    },
    /// A knot is NaN, infinite, or less than the one before it.
    Knot {
        /// The feature whose knots they are.
        feature: usize,
        /// The knot, counted from the first of its feature.
        index: usize,
    },
}

impl fmt::Display for GridError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EmptyDomain { low, high } => write!(
                formatter,
                "grid domain [{low}, {high}] is empty or not finite; `low` must be less than `high`"
            ),
            Self::NoIntervals => formatter.write_str("a grid needs at least 1 interval, got 0"),
            Self::Intervals { intervals } => {
                write!(formatter, "expected at most {MAX_INTERVALS} intervals, got {intervals}")
            }
            Self::Degree { degree } => {
                write!(formatter, "degree {degree} is above the highest one, {MAX_DEGREE}")
            }
            Self::KnotCount { expected, actual } => {
                write!(formatter, "expected {expected} knots for all features, got {actual}")
            }
            Self::KnotsOfFeature { feature, expected, actual } => {
                write!(formatter, "expected {expected} knots for feature {feature}, got {actual}")
            }
            Self::Knot { feature, index } => write!(
                formatter,
                "knot {index} of feature {feature} is not finite or less than the knot before it"
            ),
        }
    }
}

impl std::error::Error for GridError {}

impl Grid {
    /// Equal intervals over `[low, high]`, the same for every feature.
    ///
    /// # Errors
    /// [`GridError`] for an empty domain, no interval, more than [`MAX_INTERVALS`], or a degree
    /// above [`MAX_DEGREE`].
    pub fn uniform(
        low: f32,
        high: f32,
        intervals: usize,
        degree: usize,
    ) -> Result<Self, GridError> {
        knots_of_one(intervals, degree)?;
        let step = (high - low) / intervals as f32;
        if !(step.is_finite() && step > 0.0 && low + step > low) {
            return Err(GridError::EmptyDomain { low, high });
        }
        Ok(Self {
            degree,
            intervals,
            outside: Outside::default(),
            knots: Knots::Uniform { low, high },
        })
    }

    /// Separate knots for each feature, `[features, intervals + 2·degree + 1]`.
    ///
    /// The domain of a feature reaches from its knot `degree` to its knot `degree + intervals`.
    /// Knots may coincide: an empty interval holds no input.
    ///
    /// # Errors
    /// [`GridError`] for no interval, more than [`MAX_INTERVALS`], a degree above [`MAX_DEGREE`], a
    /// wrong number of knots, knots that are not finite or descend, or an empty domain.
    pub fn per_feature(
        features: usize,
        knots: Vec<f32>,
        intervals: usize,
        degree: usize,
    ) -> Result<Self, GridError> {
        let of_one = knots_of_one(intervals, degree)?;
        let (expected, actual) = (features.saturating_mul(of_one), knots.len());
        if actual != expected {
            return Err(GridError::KnotCount { expected, actual });
        }
        for (feature, knots) in knots.chunks_exact(of_one).enumerate() {
            let is_wrong = |index: usize| {
                !knots[index].is_finite() || index > 0 && knots[index] < knots[index - 1]
            };
            if let Some(index) = (0..of_one).find(|&index| is_wrong(index)) {
                return Err(GridError::Knot { feature, index });
            }
            let (low, high) = (knots[degree], knots[degree + intervals]);
            if low >= high {
                return Err(GridError::EmptyDomain { low, high });
            }
        }
        Ok(Self {
            degree,
            intervals,
            outside: Outside::default(),
            knots: Knots::PerFeature { features, knots },
        })
    }

    /// The same grid with another rule outside the domain.
    #[must_use]
    pub fn with_outside(self, outside: Outside) -> Self {
        Self { outside, ..self }
    }

    /// The degree of the pieces; 3 is cubic.
    #[must_use]
    pub const fn degree(&self) -> usize {
        self.degree
    }

    /// Pieces inside the domain.
    #[must_use]
    pub const fn intervals(&self) -> usize {
        self.intervals
    }

    /// Basis functions of one spline: `intervals + degree`.
    #[must_use]
    pub const fn bases(&self) -> usize {
        self.intervals + self.degree
    }

    /// The rule outside the domain.
    #[must_use]
    pub const fn outside(&self) -> Outside {
        self.outside
    }

    /// Whether all features share one uniform grid.
    #[must_use]
    pub const fn is_uniform(&self) -> bool {
        matches!(self.knots, Knots::Uniform { .. })
    }

    /// The number of features of the grid; `None` if it can be used for any number.
    #[must_use]
    pub const fn features(&self) -> Option<usize> {
        match self.knots {
            Knots::Uniform { .. } => None,
            Knots::PerFeature { features, .. } => Some(features),
        }
    }

    /// The ends of a feature's domain, in units of the input.
    ///
    /// # Panics
    /// If the grid has no such feature.
    #[must_use]
    pub fn domain(&self, feature: usize) -> (f32, f32) {
        match &self.knots {
            Knots::Uniform { low, high } => (*low, *high),
            Knots::PerFeature { .. } => {
                let knots = self.knots_of(feature);
                (knots[self.degree], knots[self.degree + self.intervals])
            }
        }
    }

    /// The position of knot `index` of a feature, in units of the input.
    ///
    /// Index 0 is the left end of the domain; indices from `-degree` to `intervals + degree` are
    /// knots, and others continue the grid with the last distance.
    ///
    /// # Panics
    /// If the grid has no such feature.
    #[must_use]
    pub fn knot(&self, feature: usize, index: isize) -> f64 {
        match &self.knots {
            Knots::Uniform { low, high } => {
                let (low, high) = (f64::from(*low), f64::from(*high));
                low + index as f64 * ((high - low) / self.intervals as f64)
            }
            Knots::PerFeature { .. } => {
                let knots = self.knots_of(feature);
                let (first, last) = (-(self.degree as isize), self.bases() as isize);
                let at = |index: isize| f64::from(knots[(index - first) as usize]);
                let step = |from: isize| (at(from + 1) - at(from)).max(f64::EPSILON);
                if index < first {
                    at(first) + (index - first) as f64 * step(first)
                } else if index > last {
                    at(last) + (index - last) as f64 * step(last - 1)
                } else {
                    at(index)
                }
            }
        }
    }

    /// The knots of all features, `[features, intervals + 2·degree + 1]`; none for a uniform grid.
    pub(crate) fn feature_knots(&self) -> &[f32] {
        match &self.knots {
            Knots::Uniform { .. } => &[],
            Knots::PerFeature { knots, .. } => knots,
        }
    }

    fn knots_of(&self, feature: usize) -> &[f32] {
        let Knots::PerFeature { features, knots } = &self.knots else { return &[] };
        assert!(feature < *features, "a grid of {features} features has no feature {feature}");
        let of_one = self.intervals + 2 * self.degree + 1;
        &knots[feature * of_one..(feature + 1) * of_one]
    }
}

/// Knots of one feature, if it may have so many intervals of that degree.
pub(crate) fn knots_of_one(intervals: usize, degree: usize) -> Result<usize, GridError> {
    if intervals == 0 {
        return Err(GridError::NoIntervals);
    }
    if intervals > MAX_INTERVALS {
        return Err(GridError::Intervals { intervals });
    }
    if degree > MAX_DEGREE {
        return Err(GridError::Degree { degree });
    }
    Ok(intervals + 2 * degree + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_grid_has_its_knots_at_equal_distances() {
        let grid = Grid::uniform(-1.0, 1.0, 4, 3).unwrap();
        assert_eq!(grid.bases(), 7);
        assert_eq!(grid.knot(0, 0), -1.0);
        assert_eq!(grid.knot(9, 4), 1.0);
        assert_eq!(grid.knot(0, -3), -2.5);
    }

    #[test]
    fn a_grid_of_features_continues_with_its_last_distance() {
        let knots = vec![-1.0, 0.0, 1.0, 3.0, -2.0, 0.0, 5.0, 6.0];
        let grid = Grid::per_feature(2, knots, 1, 1).unwrap();
        assert_eq!(grid.domain(1), (0.0, 5.0));
        assert_eq!(grid.knot(0, -1), -1.0);
        assert_eq!(grid.knot(0, -2), -2.0);
        assert_eq!(grid.knot(0, 3), 5.0);
        assert_eq!(grid.knot(1, 3), 7.0);
    }

    #[test]
    fn a_wrong_grid_is_refused_with_its_place() {
        let uniform = |low, high, intervals, degree| {
            Grid::uniform(low, high, intervals, degree).unwrap_err().to_string()
        };
        let empty = "grid domain [1, 1] is empty or not finite; `low` must be less than `high`";
        assert_eq!(uniform(1.0, 1.0, 5, 3), empty);
        assert!(uniform(f32::NAN, 1.0, 5, 3).contains("not finite"));
        assert!(uniform(-f32::MAX, f32::MAX, 5, 3).contains("not finite"));
        assert_eq!(uniform(0.0, 1.0, 0, 3), "a grid needs at least 1 interval, got 0");
        let wraps = (1 << 62) - 2;
        let many = format!("expected at most 1048576 intervals, got {wraps}");
        assert_eq!(uniform(0.0, 1.0, wraps, 3), many);
        assert_eq!(uniform(0.0, 1.0, 5, 16), "degree 16 is above the highest one, 15");

        let knots = |knots: &[f32]| Grid::per_feature(1, knots.to_vec(), 1, 1).unwrap_err();
        assert_eq!(knots(&[0.0]), GridError::KnotCount { expected: 4, actual: 1 });
        let wraps = Grid::per_feature(1 << 62, vec![], 1, 1).unwrap_err();
        assert_eq!(wraps, GridError::KnotCount { expected: usize::MAX, actual: 0 });
        assert_eq!(knots(&[0.0, 1.0, 0.5, 2.0]), GridError::Knot { feature: 0, index: 2 });
        assert_eq!(knots(&[0.0, 1.0, 2.0, f32::NAN]), GridError::Knot { feature: 0, index: 3 });
        assert_eq!(knots(&[0.0, 1.0, 1.0, 2.0]), GridError::EmptyDomain { low: 1.0, high: 1.0 });
    }
}
