//! The serialized form of a grid.

use serde::{Deserialize, Serialize};

use crate::grid::{Grid, GridError, Outside, knots_of_one};

/// The serialized fields of a grid; reading one makes the same checks as its constructors.
#[derive(Serialize, Deserialize)]
pub(crate) struct GridRecord {
    degree: usize,
    intervals: usize,
    #[serde(default)]
    outside: Outside,
    knots: KnotsRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KnotsRecord {
    Uniform {
        low: f32,
        high: f32,
    },
    /// One row of knots per feature.
    PerFeature(Vec<Vec<f32>>),
}

impl From<Grid> for GridRecord {
    fn from(grid: Grid) -> Self {
        let (degree, intervals) = (grid.degree(), grid.intervals());
        let indices = -(degree as isize)..=(intervals + degree) as isize;
        let knots = match grid.features() {
            None => {
                let (low, high) = grid.domain(0);
                KnotsRecord::Uniform { low, high }
            }
            Some(features) => {
                let knot = |feature, index| grid.knot(feature, index) as f32;
                let line = |feature| indices.clone().map(|index| knot(feature, index)).collect();
                KnotsRecord::PerFeature((0..features).map(line).collect())
            }
        };
        Self { degree, intervals, outside: grid.outside(), knots }
    }
}

impl TryFrom<GridRecord> for Grid {
    type Error = GridError;

    fn try_from(record: GridRecord) -> Result<Self, GridError> {
        let GridRecord { degree, intervals, outside, knots } = record;
        let grid = match knots {
            KnotsRecord::Uniform { low, high } => Self::uniform(low, high, intervals, degree),
            KnotsRecord::PerFeature(lines) => {
                // The total may be right although the number of a feature is wrong.
                let expected = knots_of_one(intervals, degree)?;
                let mut counts = lines.iter().map(Vec::len).enumerate();
                match counts.find(|&(_, actual)| actual != expected) {
                    Some((feature, actual)) => {
                        Err(GridError::KnotsOfFeature { feature, expected, actual })
                    }
                    None => Self::per_feature(lines.len(), lines.concat(), intervals, degree),
                }
            }
        };
        grid.map(|grid| grid.with_outside(outside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_read_as_it_was_written() {
        let knots = vec![-1.0, 0.1, 1.0, 3.0, -2.0, 0.0, 5.5, 6.0];
        for grid in [
            Grid::uniform(-1.0, 0.3, 4, 3).unwrap().with_outside(Outside::Extend),
            Grid::per_feature(2, knots, 1, 1).unwrap().with_outside(Outside::Clamp),
        ] {
            let text = serde_json::to_string(&grid).unwrap();
            assert_eq!(serde_json::from_str::<Grid>(&text).unwrap(), grid);
        }
    }

    #[test]
    fn a_written_grid_that_is_none_is_refused() {
        let refusal = |knots: &str| {
            let text = format!(r#"{{"degree":1,"intervals":1,"knots":{{"per-feature":{knots}}}}}"#);
            serde_json::from_str::<Grid>(&text).unwrap_err().to_string()
        };
        let expected = "knot 2 of feature 0 is not finite or less than the knot before it";
        assert_eq!(refusal("[[0.0,2.0,1.0,3.0]]"), expected);
        let ragged = "[[0.0,1.0,2.0,3.0,4.0],[0.0,1.0,2.0]]";
        assert_eq!(refusal(ragged), "expected 4 knots for feature 0, got 5");
    }
}
