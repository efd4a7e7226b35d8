//! Least squares of splines: an upper triangular band, one equation at a time.

/// A pivot below this fraction of the largest one belongs to a basis in no equation.
const NO_PIVOT: f64 = 1e-12;

/// Equations `Σ_t values[t]·c[first + t] = right`, of several right sides at once.
///
/// # Source
/// Givens rotations of band matrices as in Dierckx, Curve and Surface Fitting with Splines, 1993,
/// section 4.1.2: never the normal equations, whose condition is the square.
pub(super) struct LeastSquares {
    /// `degree + 1`.
    band: usize,
    columns: usize,
    /// `[bases, band]`, each row from its diagonal on.
    triangle: Vec<f64>,
    /// `[bases, columns]`.
    right: Vec<f64>,
}

impl LeastSquares {
    pub(super) fn new(bases: usize, degree: usize, columns: usize) -> Self {
        let band = degree + 1;
        Self { band, columns, triangle: vec![0.0; bases * band], right: vec![0.0; bases * columns] }
    }

    /// Adds an equation; `first` must not be less than in the equations before.
    pub(super) fn add(&mut self, first: usize, values: &mut [f64], right: &mut [f64]) {
        for tap in 0..self.band {
            let pivot = values[tap];
            if pivot == 0.0 {
                continue;
            }
            let row = first + tap;
            let line = &mut self.triangle[row * self.band..][..self.band];
            let length = line[0].hypot(pivot);
            let (cosine, sine) = (line[0] / length, pivot / length);
            let turn = |above: &mut f64, below: &mut f64| {
                (*above, *below) =
                    (cosine * *above + sine * *below, cosine * *below - sine * *above);
            };
            for (above, below) in line.iter_mut().zip(&mut values[tap..]) {
                turn(above, below);
            }
            let line = &mut self.right[row * self.columns..][..self.columns];
            for (above, below) in line.iter_mut().zip(&mut *right) {
                turn(above, below);
            }
        }
    }

    /// The coefficients, `[bases, columns]`; those in no equation are 0.
    pub(super) fn solve(self) -> Vec<f64> {
        let Self { band, columns, triangle, right: mut found } = self;
        let largest = triangle.iter().step_by(band).fold(0.0_f64, |most, pivot| most.max(*pivot));
        let bases = triangle.len() / band;
        for row in (0..bases).rev() {
            let line = &triangle[row * band..][..band];
            let (head, tail) = found.split_at_mut((row + 1) * columns);
            let numbers = &mut head[row * columns..];
            if line[0] <= NO_PIVOT * largest {
                numbers.fill(0.0);
                continue;
            }
            for (known, factor) in tail.chunks_exact(columns).zip(&line[1..]) {
                for (number, known) in numbers.iter_mut().zip(known) {
                    *number -= factor * known;
                }
            }
            numbers.iter_mut().for_each(|number| *number /= line[0]);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line nearest to (0, 0), (1, 2), (2, 1): by hand 1/2 + x/2.
    #[test]
    fn a_line_through_three_points_has_its_values_by_hand() {
        let mut equations = LeastSquares::new(2, 1, 1);
        for (x, y) in [(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)] {
            equations.add(0, &mut [1.0, x], &mut [y]);
        }
        let found = equations.solve();
        assert!(found.iter().all(|number| (number - 0.5).abs() < 1e-15), "{found:?}");
    }

    #[test]
    fn what_no_equation_sees_is_zero() {
        let mut equations = LeastSquares::new(4, 1, 2);
        equations.add(0, &mut [2.0, 0.0], &mut [6.0, -2.0]);
        equations.add(2, &mut [0.0, 4.0], &mut [1.0, 2.0]);
        assert_eq!(equations.solve(), [3.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.5]);
    }
}
