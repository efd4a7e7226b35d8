//! Pareto dominance, Pareto fronts and their hypervolume.

use optimizer::Direction;

/// Whether `a` dominates `b`: no loss is higher, and at least one is lower.
pub(crate) fn dominates(a: &[f64], b: &[f64]) -> bool {
    let mut is_better = false;
    for (a, b) in a.iter().zip(b) {
        if a > b {
            return false;
        }
        is_better |= a < b;
    }
    is_better
}

/// The indices of the points that no other point dominates, in ascending order; lower is better in
/// every dimension. Equal points do not dominate each other.
///
/// # Example
/// ```
/// use updraft_tune::pareto_front;
///
/// let points = [[1.0, 4.0], [2.0, 2.0], [3.0, 3.0], [4.0, 1.0]].map(Vec::from);
/// assert_eq!(pareto_front(&points), [0, 1, 3]);
/// ```
#[must_use]
pub fn pareto_front(losses: &[Vec<f64>]) -> Vec<usize> {
    let is_free = |at: &usize| !losses.iter().any(|other| dominates(other, &losses[*at]));
    (0..losses.len()).filter(is_free).collect()
}

/// The volume that the points dominate up to a reference point; lower is better in every dimension.
///
/// Points that are not better than the reference in every dimension add nothing.
///
/// # Example
/// ```
/// use updraft_tune::hypervolume;
///
/// let points = [[1.0, 3.0], [2.0, 1.0]].map(Vec::from);
/// assert_eq!(hypervolume(&points, &[4.0, 4.0]), 3.0 * 1.0 + 2.0 * 2.0);
/// ```
#[must_use]
pub fn hypervolume(losses: &[Vec<f64>], reference: &[f64]) -> f64 {
    if reference.len() != 2 {
        let directions = vec![Direction::Minimize; reference.len()];
        return optimizer::pareto::hypervolume(losses, reference, &directions);
    }
    // A sweep along the first dimension, because the crate's recursion takes cubic time.
    let is_inside = |point: &&Vec<f64>| point.iter().zip(reference).all(|(x, most)| x < most);
    let mut points: Vec<&Vec<f64>> = losses.iter().filter(is_inside).collect();
    points.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    let (mut volume, mut top) = (0.0, reference[1]);
    for point in points {
        if point[1] < top {
            volume += (reference[0] - point[0]) * (top - point[1]);
            top = point[1];
        }
    }
    volume
}

/// The indices of `count` points with a large common hypervolume, chosen greedily one by one.
pub(crate) fn covering(losses: &[Vec<f64>], count: usize) -> Vec<usize> {
    let numbers = losses.first().map_or(0, Vec::len);
    let worst = |number: usize| losses.iter().map(|it| it[number]).fold(f64::MIN, f64::max);
    // A tenth worse than the worst loss, as in Optuna.
    let reference: Vec<f64> = (0..numbers)
        .map(worst)
        .map(|most| (1.1 * most).max(0.9 * most).max(most + 1e-12))
        .collect();
    let (mut chosen, mut points) = (Vec::new(), Vec::new());
    while chosen.len() < count.min(losses.len()) {
        let with = |at: usize| {
            let mut with: Vec<Vec<f64>> = points.clone();
            with.push(losses[at].clone());
            hypervolume(&with, &reference)
        };
        let others = (0..losses.len()).filter(|at| !chosen.contains(at));
        let volumes = others.map(|at| (with(at), at));
        let best = volumes.fold(None, |best: Option<(f64, usize)>, next| match best {
            Some(best) if best.0 >= next.0 => Some(best),
            _ => Some(next),
        });
        let (_, at) = best.expect("a point is left");
        chosen.push(at);
        points.push(losses[at].clone());
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_front_of_a_known_problem_is_its_first_rank() {
        // Two objectives x and 1 - x lie on the front; a third of the points is shifted away.
        let points: Vec<Vec<f64>> = (0..30)
            .map(|i| {
                let (x, off) = (f64::from(i) / 29.0, if i % 3 == 0 { 0.5 } else { 0.0 });
                vec![x + off, 1.0 - x + off]
            })
            .collect();
        let expected: Vec<usize> = (0..30).filter(|i| i % 3 != 0).collect();
        assert_eq!(pareto_front(&points), expected);
    }

    #[test]
    fn three_numbers_have_the_volume_of_their_boxes() {
        let points = [[0.0, 0.0, 0.5], [0.5, 0.5, 0.0]].map(Vec::from);
        assert!((hypervolume(&points, &[1.0; 3]) - (0.5 + 0.25 - 0.125)).abs() < 1e-12);
        assert_eq!(hypervolume(&[vec![2.0, 0.0, 0.0]], &[1.0; 3]), 0.0);
    }

    #[test]
    fn the_covering_points_are_the_ends_and_the_middle() {
        let points: Vec<Vec<f64>> =
            (0..=10).map(|i| vec![f64::from(i) / 10.0, 1.0 - f64::from(i) / 10.0]).collect();
        let chosen = covering(&points, 3);
        assert_eq!(chosen[0], 5, "the middle covers the most: {chosen:?}");
        assert_eq!(chosen.len(), 3);
    }

    proptest! {
        #[test]
        fn the_sweep_equals_the_recursion(
            points in prop::collection::vec(prop::collection::vec(0.0..1.2_f64, 2), 0..30)
        ) {
            let directions = [Direction::Minimize; 2];
            let expected = optimizer::pareto::hypervolume(&points, &[1.0, 1.0], &directions);
            prop_assert!((hypervolume(&points, &[1.0, 1.0]) - expected).abs() < 1e-9);
        }

        #[test]
        fn every_other_point_is_dominated_by_one_of_the_front(
            points in prop::collection::vec(prop::collection::vec(0..6_i32, 3), 1..40)
        ) {
            let points: Vec<Vec<f64>> =
                points.iter().map(|it| it.iter().map(|x| f64::from(*x)).collect()).collect();
            let front = pareto_front(&points);
            prop_assert!(!front.is_empty());
            for at in 0..points.len() {
                let is_beaten = front.iter().any(|other| dominates(&points[*other], &points[at]));
                prop_assert_eq!(front.contains(&at), !is_beaten);
            }
        }
    }
}
