//! What terms are multiplied with, and the gradients of it.

use updraft_simd::Isa;

use super::cpu::finish_row;

/// The coefficients of a layer's edges: a row of outputs for each input and term. An input of a
/// convolution is a tap of a channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coefficients<'a> {
    /// `[inputs][functions][outputs]`.
    pub(crate) functions: &'a [f32],
    /// Functions of an input.
    pub(crate) count: usize,
    /// `[inputs][outputs]`, the last term.
    pub(crate) base: Option<&'a [f32]>,
    /// Factors of the functions' coefficients, `[inputs][outputs]`.
    pub(crate) factors: Option<&'a [f32]>,
    /// Outputs, of a group.
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
    pub(super) fn copy(&self, input: usize, term: usize, to: &mut [f32]) {
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
}

impl<'a> CoefficientGradients<'a> {
    /// Whether any of them is wanted.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.functions.is_some() || self.base.is_some() || self.factors.is_some()
    }

    /// Splits those of so many inputs off.
    pub(super) fn take(&mut self, inputs: usize, of: &Coefficients<'_>) -> Self {
        let edges = inputs * of.outputs;
        let off = |all: &mut Option<&'a mut [f32]>, count: usize| {
            all.as_mut().and_then(|all| all.split_off_mut(..count))
        };
        Self {
            functions: off(&mut self.functions, edges * of.count),
            base: off(&mut self.base, edges),
            factors: off(&mut self.factors, edges),
        }
    }

    /// Prepares the gradients for [`finish`](Self::finish).
    pub(super) fn start(&mut self) {
        if let Some(factors) = &mut self.factors {
            factors.fill(0.0);
        }
    }

    /// Computes the gradients of the row of an input and term from the sums for the products of
    /// coefficients and factors; `self` begins with those of the input `first`.
    ///
    /// If `s` is such a sum, the gradient of the coefficient is `factor·s`, and that of the factor is
    /// `Σ coefficient·s` over the functions.
    pub(super) fn finish(
        &mut self,
        isa: Isa,
        of: &Coefficients<'_>,
        first: usize,
        [input, term]: [usize; 2],
        sums: &[f32],
    ) {
        let (outputs, within) = (of.outputs, input - first);
        if term == of.count {
            if let Some(base) = &mut self.base {
                base[within * outputs..][..outputs].copy_from_slice(sums);
            }
            return;
        }
        let functions = self
            .functions
            .as_mut()
            .map(|functions| &mut functions[(within * of.count + term) * outputs..][..outputs]);
        let factors =
            self.factors.as_mut().map(|factors| &mut factors[within * outputs..][..outputs]);
        let own = of.factors(input, term);
        finish_row(isa.vectors(), sums, of.row(input, term), own, functions, factors);
    }
}
