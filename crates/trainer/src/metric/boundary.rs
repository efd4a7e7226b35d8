//! Distances between the boundaries of a predicted and a true mask.

use super::distance_transform::squared_distances;

/// Distances between the boundaries of two masks, in the unit of the spacing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundaryDistances {
    /// The Hausdorff distance: the largest distance from a point of one boundary to the other
    /// boundary.
    pub hausdorff: f64,
    /// The same with the 95th percentile of each boundary's distances, interpolated linearly,
    /// instead of the largest: it is robust to a few wrong points.
    pub hausdorff_95: f64,
    /// The mean distance of the points of both boundaries together to the other boundary.
    pub mean_surface: f64,
}

/// The distances between the boundaries of a predicted and a true mask; `None` where one of them is
/// empty.
///
/// The boundary of a mask is its points with a neighbor along an axis that is not in it; points
/// outside the picture do not count. These are the numbers of MONAI's `compute_hausdorff_distance`,
/// without a percentile and with `percentile=95`, and `compute_average_surface_distance` with
/// `symmetric=True`. Distances are exact, in f64.
///
/// Memory: about 10 bytes for each point of the box around both masks, and 8 for each of their
/// boundaries.
///
/// # Shapes
/// - `predicted` and `target`: a picture of `sides`, the last axis contiguous
/// - `spacing`: the distance between neighbors along each axis
///
/// # Panics
/// If a mask does not have as many points as `sides`, there is not one `spacing` for each side, or
/// a spacing is not a finite number above 0.
#[must_use]
pub fn boundary_distances(
    predicted: &[bool],
    target: &[bool],
    sides: &[usize],
    spacing: &[f64],
) -> Option<BoundaryDistances> {
    let points: usize = sides.iter().product();
    assert_eq!(predicted.len(), points, "a predicted point for each of the picture");
    assert_eq!(target.len(), points, "a true point for each of the picture");
    assert_eq!(spacing.len(), sides.len(), "one spacing for each side");
    let is_distance = |spacing: &f64| spacing.is_finite() && *spacing > 0.0;
    assert!(spacing.iter().all(is_distance), "`spacing` is {spacing:?}; expected numbers above 0");
    if !predicted.contains(&true) || !target.contains(&true) {
        return None;
    }
    let (starts, box_sides) = box_around(predicted, target, sides);
    let [predicted, target] = [predicted, target].map(|mask| {
        let mask = cut(mask, sides, &starts, &box_sides);
        boundary(&mask, &box_sides)
    });
    let distances = |from: &[bool], to: &[bool]| {
        let squares = squared_distances(to, &box_sides, spacing);
        let points = from.iter().zip(squares).filter(|(is_boundary, _)| **is_boundary);
        let mut distances: Vec<f64> = points.map(|(_, square)| square.sqrt()).collect();
        distances.sort_by(f64::total_cmp);
        distances
    };
    let both = [distances(&predicted, &target), distances(&target, &predicted)];
    let largest = |of: &dyn Fn(&[f64]) -> f64| of(&both[0]).max(of(&both[1]));
    let count: usize = both.iter().map(Vec::len).sum();
    Some(BoundaryDistances {
        hausdorff: largest(&|sorted| quantile(sorted, 1.0)),
        hausdorff_95: largest(&|sorted| quantile(sorted, 0.95)),
        mean_surface: both.iter().flatten().sum::<f64>() / count as f64,
    })
}

/// Where the smallest box around both masks starts along each axis, and its sides.
fn box_around(predicted: &[bool], target: &[bool], sides: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut bounds = vec![(usize::MAX, 0); sides.len()];
    for (at, _) in predicted.iter().zip(target).enumerate().filter(|(_, (p, t))| **p || **t) {
        let mut rest = at;
        for (axis, (first, last)) in bounds.iter_mut().enumerate().rev() {
            let place = rest % sides[axis];
            rest /= sides[axis];
            (*first, *last) = ((*first).min(place), (*last).max(place));
        }
    }
    bounds.into_iter().map(|(first, last)| (first, last + 1 - first)).unzip()
}

/// The points of a box.
fn cut(mask: &[bool], sides: &[usize], starts: &[usize], box_sides: &[usize]) -> Vec<bool> {
    let Some((&width, outer)) = box_sides.split_last() else { return mask.to_vec() };
    let rows: usize = outer.iter().product();
    let mut points = Vec::with_capacity(rows * width);
    for row in 0..rows {
        let (mut rest, mut at, mut stride) = (row * width, 0, 1);
        for axis in (0..sides.len()).rev() {
            at += (starts[axis] + rest % box_sides[axis]) * stride;
            rest /= box_sides[axis];
            stride *= sides[axis];
        }
        points.extend_from_slice(&mask[at..at + width]);
    }
    points
}

/// The points of a mask with a neighbor along an axis that is not in it.
fn boundary(mask: &[bool], sides: &[usize]) -> Vec<bool> {
    let mut is_boundary = vec![false; mask.len()];
    let mut stride = mask.len();
    for &side in sides {
        stride /= side;
        for (at, is_boundary) in is_boundary.iter_mut().enumerate() {
            let place = at / stride % side;
            let is_inside = place > 0 && mask[at - stride] && place + 1 < side && mask[at + stride];
            *is_boundary |= mask[at] && !is_inside;
        }
    }
    is_boundary
}

/// A quantile of sorted numbers, at least one, interpolated linearly.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_known_by_hand() {
        // A row of 5 points and the same moved by 2: from the ends 2, 1, 0, 0, 0 both ways, were
        // every point a boundary, as it is in a picture of one row.
        let row = |first: usize| (0..10).map(|x| (first..first + 5).contains(&x)).collect();
        let (predicted, target): (Vec<bool>, Vec<bool>) = (row(1), row(3));
        let found = boundary_distances(&predicted, &target, &[1, 10], &[7.0, 0.5]);
        let found = found.expect("both have points");
        assert_eq!(found.hausdorff, 1.0);
        assert!((found.hausdorff_95 - 0.9).abs() < 1e-12, "{found:?}");
        assert!((found.mean_surface - 0.3).abs() < 1e-12, "{found:?}");
        let same = boundary_distances(&target, &target, &[10], &[1.0]).expect("both have points");
        let none = BoundaryDistances { hausdorff: 0.0, hausdorff_95: 0.0, mean_surface: 0.0 };
        assert_eq!(same, none);
    }

    #[test]
    fn only_the_boundary_counts_and_the_edge_of_the_picture_is_one() {
        // A full picture of 3 × 5 has a boundary of all but its middle three.
        let full = vec![true; 15];
        let expected = [1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1].map(|point| point == 1);
        assert_eq!(boundary(&full, &[3, 5]), expected);
        // The middle point is at 1 from the boundary.
        let mut middle = vec![false; 15];
        middle[7] = true;
        let found = boundary_distances(&full, &middle, &[3, 5], &[1.0; 2]).expect("points");
        assert_eq!(found.hausdorff, 5.0_f64.sqrt());
    }

    #[test]
    fn an_empty_mask_has_no_boundary() {
        let (empty, full) = (vec![false; 4], vec![true; 4]);
        assert_eq!(boundary_distances(&empty, &full, &[2, 2], &[1.0; 2]), None);
        assert_eq!(boundary_distances(&full, &empty, &[2, 2], &[1.0; 2]), None);
        assert_eq!(boundary_distances(&empty, &empty, &[2, 2], &[1.0; 2]), None);
    }

    #[test]
    #[should_panic(expected = "a true point for each of the picture")]
    fn masks_of_other_sizes_are_refused() {
        let _ = boundary_distances(&[true; 4], &[true; 3], &[2, 2], &[1.0; 2]);
    }

    #[test]
    #[should_panic(expected = "one spacing for each side")]
    fn a_spacing_for_each_side_is_required() {
        let _ = boundary_distances(&[true; 4], &[true; 4], &[2, 2], &[1.0]);
    }
}
