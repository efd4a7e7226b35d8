//! The coefficients of a convolution's edges: their points for both products, and their gradients.

use updraft_simd::pixels::transpose;
use updraft_simd::winograd::{POINTS, Squares, TAPS, Transform, TransformJob};

use super::plan::{Plan, SQUARE};
use super::space::Space;
use crate::kernels::cpu::finish_row;

/// Taps of a kernel.
const KERNEL: usize = TAPS * TAPS;

/// What the terms of a convolution are multiplied with: a row of outputs for each input, which is a tap
/// of a channel, and term.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coefficients<'a> {
    /// `[channels·taps][functions][outputs]`.
    pub(crate) functions: &'a [f32],
    /// Functions of a channel.
    pub(crate) count: usize,
    /// `[channels·taps][outputs]`, the last term.
    pub(crate) base: Option<&'a [f32]>,
    /// Factors of the functions' coefficients, `[channels·taps][outputs]`.
    pub(crate) factors: Option<&'a [f32]>,
    /// Outputs of a group.
    pub(crate) outputs: usize,
}

/// The destinations of their gradients, in the same order.
#[derive(Debug, Default)]
pub(crate) struct CoefficientGradients<'a> {
    pub(crate) functions: Option<&'a mut [f32]>,
    pub(crate) base: Option<&'a mut [f32]>,
    pub(crate) factors: Option<&'a mut [f32]>,
}

impl Coefficients<'_> {
    /// The row of an input and term.
    fn row(&self, input: usize, term: usize) -> &[f32] {
        let of = |numbers, row: usize| -> &[f32] {
            let numbers: &[f32] = numbers;
            &numbers[row * self.outputs..][..self.outputs]
        };
        match self.base {
            Some(base) if term == self.count => of(base, input),
            _ => of(self.functions, input * self.count + term),
        }
    }

    /// The factors of such a row.
    fn factors(&self, input: usize, term: usize) -> Option<&[f32]> {
        let factors = self.factors.filter(|_| term < self.count)?;
        Some(&factors[input * self.outputs..][..self.outputs])
    }

    /// Copies a row, times its factors.
    fn copy(&self, input: usize, term: usize, to: &mut [f32]) {
        let row = self.row(input, term);
        match self.factors(input, term) {
            Some(factors) => {
                for ((to, row), factor) in to.iter_mut().zip(row).zip(factors) {
                    *to = row * factor;
                }
            }
            None => to[..row.len()].copy_from_slice(row),
        }
    }

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
        if !plan.terms.is_multiple_of(2) {
            // Half of the last panel.
            to.fill(0.0);
        }
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
    ///
    /// If `s` is the sum for the product of coefficient and factor, the gradient of the coefficient is
    /// `factor·s`, and that of the factor is `Σ coefficient·s` over the functions.
    pub(super) fn gradients(
        &self,
        plan: &Plan,
        [group, block]: [usize; 2],
        sums: &[f32],
        space: &mut Space,
        mut wanted: CoefficientGradients<'_>,
    ) -> bool {
        let [first, count] = plan.channels_of(group, block);
        let (lanes, columns, outputs) = (plan.lanes(), plan.outputs(), self.outputs);
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
        if let Some(factors) = &mut wanted.factors {
            factors.fill(0.0);
        }
        let vectors = plan.isa.vectors();
        for (at, kernel) in kernels.chunks_exact(KERNEL * columns).enumerate() {
            let (term, lane) = (at / lanes, at % lanes);
            if lane >= count {
                continue;
            }
            for (tap, sums) in kernel.chunks_exact(columns).enumerate() {
                let (sums, within) = (&sums[..outputs], lane * KERNEL + tap);
                if term == self.count {
                    if let Some(base) = &mut wanted.base {
                        base[within * outputs..][..outputs].copy_from_slice(sums);
                    }
                    continue;
                }
                let input = first * KERNEL + within;
                let functions = wanted.functions.as_mut().map(|functions| {
                    &mut functions[(within * self.count + term) * outputs..][..outputs]
                });
                let factors = wanted
                    .factors
                    .as_mut()
                    .map(|factors| &mut factors[within * outputs..][..outputs]);
                let own = self.factors(input, term);
                finish_row(vectors, sums, self.row(input, term), own, functions, factors);
            }
        }
        is_finite
    }
}

impl<'a> CoefficientGradients<'a> {
    /// Whether any of them is wanted.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.functions.is_some() || self.base.is_some() || self.factors.is_some()
    }

    /// Splits those of so many channels off.
    pub(super) fn take(&mut self, channels: usize, of: &Coefficients<'_>) -> Self {
        let edges = channels * KERNEL * of.outputs;
        let off = |all: &mut Option<&'a mut [f32]>, count: usize| {
            all.as_mut().and_then(|all| all.split_off_mut(..count))
        };
        Self {
            functions: off(&mut self.functions, edges * of.count),
            base: off(&mut self.base, edges),
            factors: off(&mut self.factors, edges),
        }
    }
}

/// Numbers of a block's points by output, and by term.
pub(super) fn lens(plan: &Plan) -> [usize; 2] {
    let [by_output, by_term] = plan.coefficient_pitches();
    [SQUARE * by_output, SQUARE * by_term]
}
