//! The forward pass of a perceptron, some rows through all layers at a time.

use updraft_simd::matrix::{Left, Right, Target, multiply, width};
use updraft_simd::{Aligned, Cut, Isa, Pieces, Simd, dispatch, over, threads};

use super::{Layer, Perceptron, PerceptronScratch, ROWS};

impl Perceptron<'_> {
    /// Computes the outputs `[rows, outputs]` of `x`, and the hidden outputs after dropout in pieces
    /// of [`hidden_piece`](Self::hidden_piece).
    ///
    /// Every number is the sum of its terms in order, whatever the number of threads.
    pub(crate) fn forward<'h>(
        &self,
        isa: Isa,
        x: &[f32],
        y: &mut [f32],
        hidden: impl Pieces<Piece = &'h mut [f32]>,
        scratch: &mut PerceptronScratch,
        asked_threads: usize,
    ) {
        let (vectors, threads) = (isa.vectors(), threads(asked_threads));
        scratch.for_threads(threads);
        self.pack(isa, false, &mut scratch.panels, threads);
        let (panels, inputs) = (&scratch.panels[..], self.layers[0].inputs);
        let y = Cut::new(y, ROWS * self.last().outputs());
        over((y, hidden), &mut scratch.threads[..threads], |piece, (y, hidden), scratch| {
            let first = piece * ROWS;
            let piece = Piece { first, x: &x[first * inputs..], y, hidden };
            rows_forward(vectors, *self, panels, piece, scratch);
        });
    }
}

/// Rows that pass through all layers together.
struct Piece<'a> {
    /// The place of the first in the batch.
    first: usize,
    x: &'a [f32],
    y: &'a mut [f32],
    hidden: &'a mut [f32],
}

dispatch! {
    /// Computes the rows of a piece.
    fn rows_forward(simd,
        perceptron: Perceptron<'_>,
        panels: &[Aligned],
        piece: Piece<'_>,
        scratch: &mut Aligned,
    ) {
        all_layers(simd, perceptron, panels, piece, scratch);
    }
}

#[inline(always)]
fn all_layers<S: Simd>(
    simd: S,
    perceptron: Perceptron<'_>,
    panels: &[Aligned],
    Piece { first, x, y, hidden }: Piece<'_>,
    scratch: &mut Aligned,
) {
    let last = perceptron.last();
    let rows = y.len() / last.outputs();
    let (mut before, mut pitch, mut rest) = (x, perceptron.layers[0].inputs, hidden);
    for (index, layer) in perceptron.hidden().iter().enumerate() {
        let (own, others) = rest.split_at_mut(rows * layer.pitch());
        sums(simd, *layer, &panels[index], rows, (before, pitch), own);
        for (row, sums) in own.chunks_exact_mut(layer.pitch()).enumerate() {
            let sums = &mut sums[..layer.outputs()];
            match perceptron.dropout {
                Some(dropout) => {
                    let dropout = dropout.of_row(index, first + row);
                    for (column, sum) in sums.iter_mut().enumerate() {
                        let kept = rectified(*sum) * dropout.scale;
                        *sum = if dropout.drops(column as u32) { 0.0 } else { kept };
                    }
                }
                None => sums.iter_mut().for_each(|sum| *sum = rectified(*sum)),
            }
        }
        (before, pitch, rest) = (&*own, layer.pitch(), others);
    }
    let outputs = scratch.grown(rows * last.pitch());
    sums(simd, last, &panels[perceptron.layers.len() - 1], rows, (before, pitch), outputs);
    let outputs = outputs.chunks_exact(last.pitch());
    for (y, outputs) in y.chunks_exact_mut(last.outputs()).zip(outputs) {
        y.copy_from_slice(&outputs[..last.outputs()]);
    }
}

/// The larger of the number and 0; NaN of NaN.
#[inline(always)]
fn rectified(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Writes `x·W + b` of rows, and zeros behind it.
#[inline(always)]
fn sums<S: Simd>(
    simd: S,
    layer: Layer<'_>,
    panels: &Aligned,
    rows: usize,
    (x, x_pitch): (&[f32], usize),
    to: &mut [f32],
) {
    let Layer { bias, inputs, .. } = layer;
    for row in to.chunks_exact_mut(layer.pitch()) {
        row[..bias.len()].copy_from_slice(bias);
        row[bias.len()..].fill(0.0);
    }
    let width = width::<S>();
    let panels = panels.numbers(inputs * layer.pitch());
    let right = Right { panels, pitch: [inputs * width, width] };
    let left = Left::new(x, [x_pitch, 1]);
    multiply(simd, [rows, inputs, bias.len()], left, right, to, layer.pitch(), Target::Sum);
}
