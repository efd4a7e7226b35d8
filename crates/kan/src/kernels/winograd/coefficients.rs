//! The points of a convolution's coefficients for both products, and their gradients from points.

use updraft_simd::pixels::transpose;
use updraft_simd::winograd::{POINTS, Squares, TAPS, Transform, TransformJob};

use super::plan::{Plan, SQUARE};
use super::space::Space;
use crate::kernels::coefficients::{CoefficientGradients, Coefficients};

/// Taps of a kernel.
pub(super) const KERNEL: usize = TAPS * TAPS;

impl Coefficients<'_> {
    /// The points of a block's coefficients by output: `[points][panels of outputs][terms][panel]`.
    pub(super) fn by_output(
        &self,
        plan: &Plan,
        [group, block]: [usize; 2],
        space: &mut Space,
        to: &mut [f32],
    ) {
        let [first, count] = plan.channels_of(group, block);
        let (lanes, panel) = (plan.lanes(), plan.panel());
        let outputs = self.outputs.next_multiple_of(panel);
        let (depth, pitch) = (plan.depth(), plan.coefficient_pitches()[0]);
        let rows = space.values.grown(KERNEL * outputs);
        rows.fill(0.0);
        for at in 0..depth {
            let (term, lane) = (at / lanes, at % lanes);
            if lane < count {
                for (tap, row) in rows.chunks_exact_mut(outputs).enumerate() {
                    self.copy((first + lane) * KERNEL + tap, term, row);
                }
            } else {
                rows.fill(0.0);
            }
            let job = TransformJob {
                transform: Transform::Weights,
                input: rows,
                count: [outputs / panel, 1],
                channels: panel,
                from: Squares { apart: [panel, 0], step: [TAPS * outputs, outputs] },
                to: Squares { apart: [depth * panel, 0], step: [POINTS * pitch, pitch] },
            };
            job.run(plan.isa, &mut to[at * panel..]);
        }
    }

    /// The points of a block's coefficients by term, of the kernels rotated by 180°:
    /// `[points][panels of terms][outputs][panel]`.
    pub(super) fn by_term(
        &self,
        plan: &Plan,
        [group, block]: [usize; 2],
        space: &mut Space,
        to: &mut [f32],
    ) {
        let [first, count] = plan.channels_of(group, block);
        let (lanes, panel, outputs) = (plan.lanes(), plan.panel(), self.outputs);
        let pitch = plan.coefficient_pitches()[1];
        let rows = space.columns.grown(lanes * outputs);
        let taps = space.values.grown(KERNEL * outputs * lanes);
        taps.fill(0.0);
        for term in 0..plan.terms {
            for (tap, to) in taps.chunks_exact_mut(outputs * lanes).rev().enumerate() {
                for (lane, row) in rows.chunks_exact_mut(outputs).take(count).enumerate() {
                    self.copy((first + lane) * KERNEL + tap, term, row);
                }
                transpose(plan.isa, rows, [count, outputs], outputs, to, lanes);
            }
            let job = TransformJob {
                transform: Transform::Weights,
                input: taps,
                count: [1, outputs],
                channels: lanes,
                from: Squares {
                    apart: [0, lanes],
                    step: [TAPS * outputs * lanes, outputs * lanes],
                },
                to: Squares { apart: [0, panel], step: [POINTS * pitch, pitch] },
            };
            let place = term / 2 * outputs * panel + term % 2 * lanes;
            job.run(plan.isa, &mut to[place..]);
        }
    }

    /// Converts a block's sums, which lie as [`by_output`](Self::by_output) does but for panels, to
    /// gradients, and returns whether all sums are finite.
    pub(super) fn gradients(
        &self,
        plan: &Plan,
        [group, block]: [usize; 2],
        sums: &[f32],
        space: &mut Space,
        mut wanted: CoefficientGradients<'_>,
    ) -> bool {
        let [first, count] = plan.channels_of(group, block);
        let (lanes, columns) = (plan.lanes(), plan.outputs());
        let (depth, pitch) = (plan.depth(), plan.coefficient_pitches()[0]);
        let kernels = space.results.grown(depth * KERNEL * columns);
        let job = TransformJob {
            transform: Transform::WeightGradient,
            input: sums,
            count: [1, depth],
            channels: columns,
            from: Squares { apart: [0, columns], step: [POINTS * pitch, pitch] },
            to: Squares { apart: [0, KERNEL * columns], step: [TAPS * columns, columns] },
        };
        let is_finite = job.run(plan.isa, kernels);
        wanted.start();
        for (at, kernel) in kernels.chunks_exact(KERNEL * columns).enumerate() {
            let (term, lane) = (at / lanes, at % lanes);
            if lane >= count {
                continue;
            }
            for (tap, sums) in kernel.chunks_exact(columns).enumerate() {
                let input = (first + lane) * KERNEL + tap;
                let place = [input, term];
                wanted.finish(plan.isa, self, first * KERNEL, place, &sums[..self.outputs]);
            }
        }
        is_finite
    }
}

/// Numbers of a block's points by output, and by term.
pub(super) fn lens(plan: &Plan) -> [usize; 2] {
    let [by_output, by_term] = plan.coefficient_pitches();
    [SQUARE * by_output, SQUARE * by_term]
}
