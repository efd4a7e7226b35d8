//! A perceptron of a few layers, with `ReLU` and dropout after each but the last.
//!
//! Hidden outputs lie in pieces of [`ROWS`] rows; in a piece the layers lie one behind the other, each
//! with rows of whole [`PANEL`]s.

mod backward;
mod forward;
#[cfg(test)]
mod tests;

use std::ops::Range;

use updraft_simd::matrix::{Rows, pack, pack_transposed, width};
use updraft_simd::{Aligned, Isa, Simd, dispatch, over};

use super::Dropout;

pub(crate) use backward::Passed;

/// Numbers that a row of work space is a multiple of: whole panels of every instruction set.
const PANEL: usize = 32;

/// Rows that pass through all layers together, whole tiles of every instruction set: as few stay in
/// the nearest cache.
const ROWS: usize = 48;

/// A linear layer: weights `[inputs, outputs]` and a bias.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layer<'a> {
    pub(crate) weight: &'a [f32],
    pub(crate) bias: &'a [f32],
    pub(crate) inputs: usize,
}

impl Layer<'_> {
    pub(crate) const fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Numbers from row to row of its outputs in work space.
    const fn pitch(&self) -> usize {
        self.outputs().next_multiple_of(PANEL)
    }
}

/// The layers of a perceptron, at least one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Perceptron<'a> {
    pub(crate) layers: &'a [Layer<'a>],
    pub(crate) dropout: Option<Dropout>,
}

/// Work space of a perceptron.
#[derive(Debug, Default)]
pub(crate) struct PerceptronScratch {
    panels: Vec<Aligned>,
    /// Gradients of the sums before each activation, in the layout of hidden outputs.
    sums: Aligned,
    threads: Vec<Aligned>,
}

impl PerceptronScratch {
    fn for_threads(&mut self, threads: usize) {
        if self.threads.len() < threads {
            self.threads.resize_with(threads, Aligned::default);
        }
    }
}

impl<'a> Perceptron<'a> {
    /// Hidden outputs of a row, each layer filled up to whole panels.
    pub(crate) fn hidden_pitch(&self) -> usize {
        self.hidden().iter().map(Layer::pitch).sum()
    }

    /// Hidden outputs of a piece.
    pub(crate) fn hidden_piece(&self) -> usize {
        ROWS * self.hidden_pitch()
    }

    /// Inputs of a piece.
    pub(crate) fn input_piece(&self) -> usize {
        ROWS * self.layers[0].inputs
    }

    fn hidden(&self) -> &'a [Layer<'a>] {
        &self.layers[..self.layers.len() - 1]
    }

    fn last(&self) -> Layer<'a> {
        self.layers[self.layers.len() - 1]
    }

    /// Packs the weights of all layers, or their transposes.
    fn pack(&self, isa: Isa, is_transposed: bool, panels: &mut Vec<Aligned>, threads: usize) {
        /// Packing fewer numbers takes less time than giving a part of them to another thread.
        const FEW: usize = 16 << 10;
        panels.resize_with(panels.len().max(self.layers.len()), Aligned::default);
        let numbers: usize = self.layers.iter().map(|layer| layer.weight.len()).sum();
        let threads = if numbers < FEW { 1 } else { threads };
        let tasks: Vec<_> = self.layers.iter().zip(panels.iter_mut()).collect();
        over(tasks, &mut vec![(); threads], |_, (layer, panels), ()| {
            let (inputs, pitch) = (layer.inputs.next_multiple_of(PANEL), layer.pitch());
            if is_transposed {
                pack_transpose(isa.vectors(), *layer, panels.grown(inputs * layer.outputs()));
            } else {
                pack_weight(isa.vectors(), *layer, panels.grown(layer.inputs * pitch));
            }
        });
    }
}

dispatch! {
    fn pack_weight(simd, layer: Layer<'_>, to: &mut [f32]) {
        pack_rows(simd, layer, to);
    }

    fn pack_transpose(simd, layer: Layer<'_>, to: &mut [f32]) {
        pack_columns(simd, layer, to);
    }
}

#[inline(always)]
fn pack_rows<S: Simd>(_: S, layer: Layer<'_>, to: &mut [f32]) {
    pack(width::<S>(), rows_of(layer), to);
}

#[inline(always)]
fn pack_columns<S: Simd>(simd: S, layer: Layer<'_>, to: &mut [f32]) {
    pack_transposed(simd, width::<S>(), rows_of(layer), to);
}

#[inline(always)]
const fn rows_of(layer: Layer<'_>) -> Rows<'_> {
    let outputs = layer.outputs();
    Rows { numbers: layer.weight, pitch: outputs, count: layer.inputs, len: outputs }
}

/// Where the outputs of a layer lie among those of all layers of some rows.
#[inline(always)]
fn of_layers(rows: usize, layer: usize, layers: &[Layer<'_>]) -> Range<usize> {
    let start: usize = layers[..layer].iter().map(|layer| rows * layer.pitch()).sum();
    start..start + rows * layers[layer].pitch()
}
