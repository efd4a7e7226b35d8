//! The sizes of a layer of functions in closed form, and its slices.

use std::ops::Range;

use super::function::Legendre;
use crate::basis::Basis;
use crate::kernels::activation::Activation;

/// Rows whose functions are evaluated at a time: whole panels and tiles of every instruction set.
pub(super) const ROWS: usize = 192;

/// The distance of a panel's lines. An odd number of cache lines, so that a tile's lines are in
/// different sets of the cache.
pub(super) const PITCH: usize = ROWS + 16;

/// Terms that are summed before a result is written: a panel of weights and a tile's lines of values
/// fit the nearest cache.
pub(super) const TERMS: usize = 160;

/// Inputs of a chunk are a multiple of it where they are more: squares of vectors are transposed.
const SQUARE: usize = 16;

/// A layer of sums of functions in closed form.
#[derive(Debug, Clone)]
pub(crate) struct DenseLayer {
    pub(crate) basis: Basis,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Groups of inputs with separate parameters of the functions.
    pub(crate) groups: usize,
    pub(crate) activation: Activation,
}

/// The parameters of a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DenseWeights<'a> {
    /// `[inputs, functions, outputs]`.
    pub(crate) coefficients: &'a [f32],
    /// Parameters of the functions, `[groups, parameters]`.
    pub(crate) functions: &'a [f32],
    /// Weights of the base branch, `[inputs, outputs]`.
    pub(crate) base: Option<&'a [f32]>,
    /// Initial values of the outputs.
    pub(crate) bias: Option<&'a [f32]>,
}

/// The input of a layer, `[batch, inputs]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DenseInput<'a> {
    pub(crate) x: &'a [f32],
    /// What the functions see, if it is not `x`; the base branch sees `x`.
    pub(crate) seen: Option<&'a [f32]>,
}

/// The gradients that are wanted.
#[derive(Debug, Default)]
pub(crate) struct DenseGradients<'a> {
    pub(crate) x: Option<&'a mut [f32]>,
    pub(crate) seen: Option<&'a mut [f32]>,
    pub(crate) coefficients: Option<&'a mut [f32]>,
    pub(crate) functions: Option<&'a mut [f32]>,
    pub(crate) base: Option<&'a mut [f32]>,
    pub(crate) bias: Option<&'a mut [f32]>,
}

impl DenseGradients<'_> {
    /// Those of an empty batch.
    pub(super) fn set_to_zero(self) {
        let Self { x, seen, coefficients, functions, base, bias } = self;
        let all = [x, seen, coefficients, functions, base, bias];
        all.into_iter().flatten().for_each(|numbers| numbers.fill(0.0));
    }
}

impl DenseLayer {
    /// Functions of an input.
    pub(super) fn count(&self) -> usize {
        self.basis.count()
    }

    /// Inputs whose functions are evaluated together.
    pub(super) fn chunk(&self, has_base: bool) -> usize {
        let fit = (TERMS / (self.count() + usize::from(has_base))).max(1);
        let squares = (fit + SQUARE / 4) / SQUARE * SQUARE;
        if squares == 0 { fit } else { squares }.min(self.inputs)
    }

    /// The chunks of inputs.
    pub(super) fn chunks(&self, has_base: bool) -> impl Iterator<Item = Range<usize>> + use<> {
        let (all, chunk) = (self.inputs, self.chunk(has_base));
        (0..all).step_by(chunk).map(move |first| first..(first + chunk).min(all))
    }

    /// The numbers that the functions of each group need, and how many those are for a group.
    pub(super) fn parameters<'a>(&self, weights: &DenseWeights<'a>) -> Parameters<'a> {
        let own = match self.basis {
            Basis::Legendre { degree } => Legendre { degree }.factors(),
            _ => Vec::new(),
        };
        let each = weights.functions.len() / self.groups;
        Parameters { own, all: weights.functions, each, of_group: self.inputs / self.groups }
    }
}

/// What the functions of each input need to know.
pub(super) struct Parameters<'a> {
    /// The same for all inputs.
    own: Vec<f32>,
    all: &'a [f32],
    each: usize,
    /// Inputs of a group.
    of_group: usize,
}

impl Parameters<'_> {
    /// Those of an input.
    #[inline(always)]
    pub(super) fn of(&self, input: usize) -> &[f32] {
        if self.each == 0 {
            return &self.own;
        }
        &self.all[input / self.of_group * self.each..][..self.each]
    }

    /// How many a layer may train for each group.
    pub(super) const fn trained(&self) -> usize {
        self.each
    }
}
