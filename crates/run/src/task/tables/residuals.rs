//! Plots of predicted against true numbers.

use crate::task::Picture;

/// Points that a plot shows; more hide each other.
const MOST_POINTS: usize = 2000;

/// Intervals of the residuals' histogram.
const BINS: usize = 41;

/// Predicted against true values of the test rows, and a histogram of residuals; `points` are
/// pairs of a true and a predicted value of `column`.
pub(super) fn residual_pictures(column: &str, mut points: Vec<[f64; 2]>) -> Vec<Picture> {
    // Non-finite values have no place in a plot, and no number in JSON.
    points.retain(|pair| pair.iter().all(|number| number.is_finite()));
    let residuals: Vec<f64> = points.iter().map(|[value, predicted]| predicted - value).collect();
    let most = residuals.iter().fold(0.0_f64, |most, residual| most.max(residual.abs()));
    // Every so many, so that each part of the set is seen.
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    let mut pictures = vec![Picture::Points {
        title: format!("Predicted against true values of `{column}` on the test rows"),
        x_name: format!("true {column}"),
        y_name: format!("predicted {column}"),
        points: points.into_iter().step_by(step).collect(),
        has_diagonal: true,
    }];
    if most > 0.0 && most.is_finite() {
        let width = 2.0 * most / BINS as f64;
        let mut counts = vec![0; BINS];
        for residual in residuals {
            let bin = ((residual + most) / width) as usize;
            counts[bin.min(BINS - 1)] += 1;
        }
        pictures.push(Picture::Histogram {
            title: format!("Residuals of `{column}` on the test rows, predicted less true"),
            x_name: format!("residual of {column}"),
            bins: [-most, width],
            counts,
        });
    }
    pictures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_pair_is_counted_once_and_the_largest_residual_in_the_last_bin() {
        let points =
            vec![[0.0, 2.0], [1.0, 0.0], [3.0, 3.0], [f64::NAN, 1.0], [1.0, f64::INFINITY]];
        let pictures = residual_pictures("y", points);
        let [Picture::Points { points, x_name, .. }, Picture::Histogram { bins, counts, .. }] =
            &pictures[..]
        else {
            panic!("{pictures:?}")
        };
        assert_eq!((points.len(), x_name.as_str()), (3, "true y"));
        // Residuals 2, -1 and 0 in 41 bins from -2 to 2.
        assert_eq!(bins[0], -2.0);
        let full: Vec<usize> = (0..BINS).filter(|&bin| counts[bin] > 0).collect();
        assert_eq!((full, counts.iter().sum::<u64>()), (vec![10, 20, 40], 3));
    }

    #[test]
    fn many_points_are_thinned_and_perfect_predictions_have_no_histogram() {
        let pictures = residual_pictures("y", vec![[1.0, 1.0]; 5000]);
        let [Picture::Points { points, .. }] = &pictures[..] else { panic!("{pictures:?}") };
        assert_eq!(points.len(), 1667);
    }
}
