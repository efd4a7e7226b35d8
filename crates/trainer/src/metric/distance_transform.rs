//! The distance of each point of a grid to the nearest of a set.

/// The squared Euclidean distance of each point to the nearest point in the set, in the square of
/// the spacing's unit; infinite if the set is empty.
///
/// `sides` and `spacing` have one entry for each axis; the last axis is contiguous in `set`.
///
/// # Source
/// Felzenszwalb and Huttenlocher 2012, doi:10.4086/toc.2012.v008a019.
pub(super) fn squared_distances(set: &[bool], sides: &[usize], spacing: &[f64]) -> Vec<f64> {
    let mut squares: Vec<f64> =
        set.iter().map(|&is_set| if is_set { 0.0 } else { f64::INFINITY }).collect();
    let mut stride = set.len();
    for (&side, &step) in sides.iter().zip(spacing) {
        let span = stride;
        stride /= side;
        let mut line = Line::new(side);
        for outer in (0..set.len()).step_by(span) {
            for first in outer..outer + stride {
                line.apply(&mut squares, first, stride, step);
            }
        }
    }
    squares
}

/// The distance transform of one line: the lower envelope of a parabola at each of its points.
struct Line {
    heights: Vec<f64>,
    /// The parabolas of the envelope: the vertex, and where it becomes the lowest.
    envelope: Vec<(usize, f64)>,
}

impl Line {
    fn new(side: usize) -> Self {
        Self { heights: vec![0.0; side], envelope: Vec::with_capacity(side) }
    }

    fn apply(&mut self, squares: &mut [f64], first: usize, stride: usize, step: f64) {
        for (height, square) in self.heights.iter_mut().zip(squares[first..].iter().step_by(stride))
        {
            *height = *square;
        }
        self.find_envelope(step);
        if self.envelope.is_empty() {
            return;
        }
        let mut lowest = 0;
        for at in 0..self.heights.len() {
            let x = at as f64 * step;
            while self.envelope.get(lowest + 1).is_some_and(|(_, from)| *from < x) {
                lowest += 1;
            }
            let vertex = self.envelope[lowest].0;
            let away = at.abs_diff(vertex) as f64 * step;
            squares[first + at * stride] = away * away + self.heights[vertex];
        }
    }

    fn find_envelope(&mut self, step: f64) {
        self.envelope.clear();
        for (at, &height) in self.heights.iter().enumerate() {
            if height == f64::INFINITY {
                continue;
            }
            let x = at as f64 * step;
            let mut from = f64::NEG_INFINITY;
            while let Some(&(vertex, start)) = self.envelope.last() {
                let v = vertex as f64 * step;
                from = ((height + x * x) - (self.heights[vertex] + v * v)) / (2.0 * (x - v));
                if from > start {
                    break;
                }
                self.envelope.pop();
                from = f64::NEG_INFINITY;
            }
            self.envelope.push((at, from));
        }
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::scattered;

    use super::*;

    fn by_definition(set: &[bool], sides: &[usize], spacing: &[f64]) -> Vec<f64> {
        let place = |mut at: usize| {
            let mut place = vec![0.0; sides.len()];
            for axis in (0..sides.len()).rev() {
                place[axis] = (at % sides[axis]) as f64 * spacing[axis];
                at /= sides[axis];
            }
            place
        };
        let square = |a: usize, b: usize| -> f64 {
            place(a).iter().zip(place(b)).map(|(a, b)| (a - b).powi(2)).sum()
        };
        let all = 0..set.len();
        all.clone()
            .map(|a| {
                all.clone()
                    .filter(|&b| set[b])
                    .fold(f64::INFINITY, |least, b| least.min(square(a, b)))
            })
            .collect()
    }

    #[test]
    fn it_is_the_distance_to_the_nearest_of_all() {
        let grids: [(&[usize], &[f64]); 4] = [
            (&[17], &[0.5]),
            (&[9, 14], &[1.0, 1.0]),
            (&[5, 6, 7], &[2.5, 0.7, 0.3]),
            (&[1, 8, 1], &[1.0, 3.0, 0.1]),
        ];
        for (sides, spacing) in grids {
            for (seed, share) in [(1, -0.95), (2, -0.6), (3, 0.5), (4, -2.0)] {
                let values = scattered(seed, sides.iter().product());
                let set: Vec<bool> = values.iter().map(|&value| value < share).collect();
                let found = squared_distances(&set, sides, spacing);
                for (found, expected) in found.iter().zip(by_definition(&set, sides, spacing)) {
                    let is_near = (found - expected).abs() <= 1e-12 * expected;
                    assert!(*found == expected || is_near, "{found}, expected {expected}");
                }
            }
        }
    }
}
