//! Accumulates overlapping windows, plane by plane, until a plane is final.

use std::collections::VecDeque;

use crate::sliding::grid::Grid;

/// The sums of the planes that are not final.
pub(super) struct Accumulator {
    channels: usize,
    plane_values: usize,
    /// The next plane of the volume to become final.
    first: usize,
    planes: VecDeque<Sums>,
    /// Buffers of finished planes, for reuse.
    spare: Vec<Sums>,
}

/// One plane: weighted values `[channels, …]`, and the weights.
struct Sums {
    values: Vec<f32>,
    weights: Vec<f32>,
}

impl Accumulator {
    /// `first` is the first requested plane: planes before it are not accumulated.
    pub(super) fn new(channels: usize, grids: &[Grid; 3], first: usize) -> Self {
        let plane_values = grids[1].side * grids[2].side;
        let (planes, spare) = (VecDeque::new(), Vec::new());
        Self { channels, plane_values, first, planes, spare }
    }

    pub(super) const fn channels(&self) -> usize {
        self.channels
    }

    /// Adds a window `[channels, …]`, times its weights.
    pub(super) fn add(
        &mut self,
        grids: &[Grid; 3],
        starts: [usize; 3],
        values: &[f32],
        weights: &[f32],
    ) {
        let [(planes, first_plane), (rows, first_row), (columns, first_column)] =
            [0, 1, 2].map(|axis| grids[axis].inside(starts[axis]));
        let [_, window_rows, window_columns] = [0, 1, 2].map(|axis| grids[axis].window);
        let window_values = weights.len();
        for (plane, at) in planes.clone().zip(first_plane..) {
            if at < self.first {
                continue;
            }
            while self.planes.len() <= at - self.first {
                let fresh = self.fresh();
                self.planes.push_back(fresh);
            }
            let sums = &mut self.planes[at - self.first];
            for (row, at) in rows.clone().zip(first_row..) {
                let from = (plane * window_rows + row) * window_columns + columns.start;
                let to = at * grids[2].side + first_column;
                let weights = &weights[from..][..columns.len()];
                let own = &mut sums.weights[to..][..columns.len()];
                own.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
                for channel in 0..self.channels {
                    let values = &values[channel * window_values + from..][..columns.len()];
                    let own = &mut sums.values[channel * self.plane_values + to..][..columns.len()];
                    for ((sum, value), weight) in own.iter_mut().zip(values).zip(weights) {
                        *sum += value * weight;
                    }
                }
            }
        }
    }

    /// Returns the planes before `end`, divided by their weights, one after the other.
    pub(super) fn finish<E>(
        &mut self,
        end: usize,
        mut take: impl FnMut(&[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.first < end {
            let Some(mut sums) = self.planes.pop_front() else { break };
            for values in sums.values.chunks_exact_mut(self.plane_values) {
                values.iter_mut().zip(&sums.weights).for_each(|(value, weight)| *value /= weight);
            }
            self.first += 1;
            take(&sums.values)?;
            self.spare.push(sums);
        }
        Ok(())
    }

    fn fresh(&mut self) -> Sums {
        let Some(mut sums) = self.spare.pop() else {
            let values = vec![0.0; self.channels * self.plane_values];
            return Sums { values, weights: vec![0.0; self.plane_values] };
        };
        sums.values.fill(0.0);
        sums.weights.fill(0.0);
        sums
    }
}
