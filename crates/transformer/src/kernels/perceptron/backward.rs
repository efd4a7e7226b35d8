//! The gradients of a perceptron.

use updraft_simd::matrix::{Left, Right, Target, multiply, width};
use updraft_simd::{Aligned, Cut, Isa, Pieces, Simd, dispatch, over, threads};

use super::{Layer, PANEL, Perceptron, PerceptronScratch, ROWS, of_layers};

/// Rows of a gradient of weights that a thread computes at a time, whole tiles of every instruction
/// set.
const WEIGHT_ROWS: usize = 24;

/// What the forward pass read and computed, and the gradient of its outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) hidden: &'a [f32],
    pub(crate) dy: &'a [f32],
}

/// Rows that pass through all layers together.
struct Piece<'a> {
    index: usize,
    /// Gradients of the sums before each activation.
    sums: &'a mut [f32],
    dx: Option<&'a mut [f32]>,
}

/// Some rows of the gradient of a layer's weights, and that of the bias with the first of them.
struct OfLayer<'a> {
    layer: usize,
    first: usize,
    weight: &'a mut [f32],
    bias: Option<&'a mut [f32]>,
}

impl Perceptron<'_> {
    /// Computes the gradients of `x`, if wanted, and of the weights and the bias of each layer.
    ///
    /// A hidden output above 0 was neither rectified nor dropped, so that no mask is needed. Every
    /// number is the sum of its terms in order, whatever the number of threads.
    pub(crate) fn backward<'x>(
        &self,
        isa: Isa,
        passed: Passed<'_>,
        dx: Option<impl Pieces<Piece = &'x mut [f32]>>,
        parameters: &mut [[Vec<f32>; 2]],
        scratch: &mut PerceptronScratch,
        asked_threads: usize,
    ) {
        let (vectors, threads) = (isa.vectors(), threads(asked_threads));
        scratch.for_threads(threads);
        self.pack(isa, true, &mut scratch.panels, threads);
        let rows = passed.dy.len() / self.last().outputs();
        let pitch = self.layers.iter().map(Layer::pitch).sum::<usize>();
        let sums = scratch.sums.grown(rows * pitch);
        let pieces = Cut::new(&mut *sums, ROWS * pitch);
        let (panels, of_threads) = (&scratch.panels[..], &mut scratch.threads[..threads]);
        match dx {
            Some(dx) => over((pieces, dx), of_threads, |piece, (sums, dx), scratch| {
                let piece = Piece { index: piece, sums, dx: Some(dx) };
                rows_backward(vectors, *self, panels, passed, piece, scratch);
            }),
            None => over(pieces, of_threads, |piece, sums, scratch| {
                let piece = Piece { index: piece, sums, dx: None };
                rows_backward(vectors, *self, panels, passed, piece, scratch);
            }),
        }
        let mut tasks = Vec::new();
        for ((layer, own), [weight, bias]) in self.layers.iter().enumerate().zip(parameters) {
            let mut bias = Some(&mut bias[..]);
            let parts = weight.chunks_mut(WEIGHT_ROWS * own.outputs()).enumerate();
            tasks.extend(parts.map(|(part, weight)| OfLayer {
                layer,
                first: part * WEIGHT_ROWS,
                weight,
                bias: bias.take(),
            }));
        }
        let sums = &*sums;
        over(tasks, of_threads, |_, task, scratch| {
            weights_backward(vectors, *self, passed, sums, task, scratch);
        });
    }
}

dispatch! {
    /// Computes the gradients of the sums of a piece's rows, and of their inputs.
    fn rows_backward(simd,
        perceptron: Perceptron<'_>,
        panels: &[Aligned],
        passed: Passed<'_>,
        piece: Piece<'_>,
        scratch: &mut Aligned,
    ) {
        let Piece { index, sums, dx } = piece;
        of_sums(simd, perceptron, panels, index, passed, sums);
        if let Some(dx) = dx {
            of_inputs(simd, perceptron.layers[0], &panels[0], sums, dx, scratch);
        }
    }

    /// Computes some rows of the gradient of a layer's weights.
    fn weights_backward(simd,
        perceptron: Perceptron<'_>,
        passed: Passed<'_>,
        sums: &[f32],
        task: OfLayer<'_>,
        scratch: &mut Aligned,
    ) {
        of_weights(simd, perceptron, passed, sums, task, scratch);
    }
}

#[inline(always)]
fn of_sums<S: Simd>(
    simd: S,
    perceptron: Perceptron<'_>,
    panels: &[Aligned],
    piece: usize,
    passed: Passed<'_>,
    sums: &mut [f32],
) {
    let (layers, outputs) = (perceptron.layers, perceptron.last().outputs());
    let dy = &passed.dy[piece * ROWS * outputs..];
    let dy = &dy[..dy.len().min(ROWS * outputs)];
    let rows = dy.len() / outputs;
    let hidden = &passed.hidden[piece * perceptron.hidden_piece()..];
    let last = of_layers(rows, layers.len() - 1, layers);
    let own = sums[last].chunks_exact_mut(perceptron.last().pitch());
    for (own, dy) in own.zip(dy.chunks_exact(outputs)) {
        own[..outputs].copy_from_slice(dy);
        own[outputs..].fill(0.0);
    }
    let scale = perceptron.dropout.map_or(1.0, |dropout| dropout.scale);
    for layer in (1..layers.len()).rev() {
        let before = of_layers(rows, layer - 1, layers);
        let (to, from) = sums.split_at_mut(before.end);
        let to = &mut to[before.clone()];
        through(simd, layers[layer], &panels[layer], rows, from, to, layers[layer - 1].pitch());
        for (gradient, &output) in to.iter_mut().zip(&hidden[before]) {
            *gradient = if output > 0.0 { *gradient * scale } else { 0.0 };
        }
    }
}

/// Writes the gradient of a layer's inputs.
#[inline(always)]
fn through<S: Simd>(
    simd: S,
    layer: Layer<'_>,
    panels: &Aligned,
    rows: usize,
    sums: &[f32],
    to: &mut [f32],
    pitch: usize,
) {
    let (width, outputs) = (width::<S>(), layer.outputs());
    let panels = panels.numbers(layer.inputs.next_multiple_of(PANEL) * outputs);
    let right = Right { panels, pitch: [outputs * width, width] };
    let left = Left::new(sums, [layer.pitch(), 1]);
    multiply(simd, [rows, outputs, layer.inputs], left, right, to, pitch, Target::Replaced);
}

#[inline(always)]
fn of_inputs<S: Simd>(
    simd: S,
    first: Layer<'_>,
    panels: &Aligned,
    sums: &[f32],
    dx: &mut [f32],
    scratch: &mut Aligned,
) {
    let (rows, pitch) = (dx.len() / first.inputs, first.inputs.next_multiple_of(PANEL));
    let all = scratch.grown(rows * pitch);
    through(simd, first, panels, rows, sums, all, pitch);
    for (dx, all) in dx.chunks_exact_mut(first.inputs).zip(all.chunks_exact(pitch)) {
        dx.copy_from_slice(&all[..first.inputs]);
    }
}

#[inline(always)]
fn of_weights<S: Simd>(
    simd: S,
    perceptron: Perceptron<'_>,
    Passed { x, hidden, dy }: Passed<'_>,
    sums: &[f32],
    task: OfLayer<'_>,
    scratch: &mut Aligned,
) {
    let (layers, OfLayer { layer, first, weight, mut bias }) = (perceptron.layers, task);
    let (own, rows) = (layers[layer], dy.len() / perceptron.last().outputs());
    let (outputs, pitch) = (own.outputs(), own.pitch());
    let count = weight.len() / outputs;
    let products = scratch.grown(count * pitch);
    let pitch_of_all = layers.iter().map(Layer::pitch).sum::<usize>();
    if let Some(bias) = &mut bias {
        bias.fill(0.0);
    }
    for start in (0..rows).step_by(ROWS) {
        let rows = ROWS.min(rows - start);
        let (before, before_pitch) = match layer.checked_sub(1) {
            None => (&x[start * own.inputs..], own.inputs),
            Some(before) => {
                let piece = &hidden[start * perceptron.hidden_pitch()..];
                (&piece[of_layers(rows, before, layers)], layers[before].pitch())
            }
        };
        let sums = &sums[start * pitch_of_all..][of_layers(rows, layer, layers)];
        let left = Left::new(&before[first..], [1, before_pitch]);
        let right = Right { panels: sums, pitch: [width::<S>(), pitch] };
        let into = if start == 0 { Target::Replaced } else { Target::Sum };
        multiply(simd, [count, rows, outputs], left, right, products, pitch, into);
        if let Some(bias) = &mut bias {
            for sums in sums.chunks_exact(pitch) {
                for (bias, sum) in bias.iter_mut().zip(sums) {
                    *bias += sum;
                }
            }
        }
    }
    for (weight, products) in weight.chunks_exact_mut(outputs).zip(products.chunks_exact(pitch)) {
        weight.copy_from_slice(&products[..outputs]);
    }
}
