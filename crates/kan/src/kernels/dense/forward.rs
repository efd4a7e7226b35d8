//! The outputs of a layer of functions in closed form.

use updraft_simd::matrix::{Left, Right, Rows, Target, multiply, width};
use updraft_simd::{Cut, Isa, Simd, dispatch, over, threads};

use super::layer::{DenseInput, DenseLayer, DenseWeights, PITCH, Parameters, ROWS};
use super::panel::{base, columns_of, values};
use super::scratch::{DenseScratch, DenseSpace};
use super::weights::pack_rows;

/// The most rows of the result that a thread computes with the same packed weights.
const PIECE: usize = 2 * ROWS;

/// What the rows of a piece are a multiple of, for tiles that use most registers.
const ROWS_OF_TILES: usize = 4;

/// Computes a layer's outputs, `[batch, outputs]`.
///
/// Every output is the sum of its terms in the order of the inputs, whatever the number of threads.
pub(crate) fn dense_forward(
    isa: Isa,
    layer: &DenseLayer,
    weights: &DenseWeights<'_>,
    input: DenseInput<'_>,
    y: &mut [f32],
    scratch: &mut DenseScratch,
    asked_threads: usize,
) {
    let (vectors, threads) = (isa.vectors(), threads(asked_threads));
    let parameters = &layer.parameters(weights);
    let rows = rows_of_piece(y.len() / layer.outputs, threads);
    let (_, _, spaces) = scratch.split(0, threads);
    over(Cut::new(y, rows * layer.outputs), spaces, |piece, y, space| {
        let first = piece * rows * layer.inputs;
        let [x, seen] = [Some(input.x), input.seen].map(|all| all.map(|all| &all[first..]));
        let input = DenseInput { x: x.unwrap_or_default(), seen };
        rows_of(vectors, layer, weights, parameters, input, y, space);
    });
}

/// Rows of a piece: as many for each thread, but for what tiles need.
pub(super) fn rows_of_piece(batch: usize, threads: usize) -> usize {
    let pieces = batch.div_ceil(PIECE).next_multiple_of(threads).max(1);
    batch.div_ceil(pieces).next_multiple_of(ROWS_OF_TILES).clamp(ROWS_OF_TILES, PIECE)
}

dispatch! {
    /// Computes the outputs of some rows.
    fn rows_of(simd,
        layer: &DenseLayer,
        weights: &DenseWeights<'_>,
        parameters: &Parameters<'_>,
        input: DenseInput<'_>,
        y: &mut [f32],
        space: &mut DenseSpace,
    ) {
        compute(simd, layer, weights, parameters, input, y, space);
    }
}

#[inline(always)]
fn compute<S: Simd>(
    simd: S,
    layer: &DenseLayer,
    weights: &DenseWeights<'_>,
    parameters: &Parameters<'_>,
    DenseInput { x, seen }: DenseInput<'_>,
    y: &mut [f32],
    space: &mut DenseSpace,
) {
    let &DenseLayer { inputs, outputs, activation, .. } = layer;
    let (width, count, rows) = (width::<S>(), layer.count(), y.len() / outputs);
    let has_base = weights.base.is_some();
    let whole = outputs / width * width;
    let (panels, rest) = (outputs.div_ceil(width), outputs - whole);
    let chunk = layer.chunk(has_base);
    let terms = chunk * (count + usize::from(has_base));
    let DenseSpace { columns: [columns, others], panel, weights: packed, result, .. } = space;
    let (columns, panel) = (columns.grown(chunk * PITCH), panel.grown(terms * PITCH));
    let others = others.grown(if has_base && seen.is_some() { chunk * PITCH } else { 0 });
    let packed = packed.grown(panels * terms * width);
    let last = result.grown(if rest > 0 { rows * width } else { 0 });
    if let Some(bias) = weights.bias {
        for row in y.chunks_exact_mut(outputs) {
            row.copy_from_slice(bias);
        }
        for row in last.chunks_exact_mut(width) {
            row[..rest].copy_from_slice(&bias[whole..]);
        }
    }
    for (step, chunk) in layer.chunks(has_base).enumerate() {
        let terms = chunk.len() * (count + usize::from(has_base));
        let of_functions = chunk.len() * count;
        let edges = chunk.start * outputs;
        let coefficients = Rows {
            numbers: &weights.coefficients[edges * count..],
            pitch: outputs,
            count: of_functions,
            len: outputs,
        };
        pack_rows(width, coefficients, packed, terms, 0);
        if let Some(base) = weights.base {
            let base = Rows { numbers: &base[edges..], count: chunk.len(), ..coefficients };
            pack_rows(width, base, packed, terms, of_functions);
        }
        let target =
            if step == 0 && weights.bias.is_none() { Target::Replaced } else { Target::Sum };
        let right = Right { panels: packed, pitch: [terms * width, width] };
        for first in (0..rows).step_by(ROWS) {
            let rows = ROWS.min(rows - first);
            let own = first..first + rows;
            columns_of(simd, seen.unwrap_or(x), inputs, own.clone(), chunk.clone(), columns);
            values(simd, layer, parameters, chunk.clone(), columns, panel, [rows, PITCH]);
            if has_base {
                let columns = if seen.is_some() {
                    columns_of(simd, x, inputs, own, chunk.clone(), others);
                    &*others
                } else {
                    &*columns
                };
                let panel = &mut panel[of_functions * PITCH..];
                base(simd, activation, columns, panel, [chunk.len(), rows, PITCH]);
            }
            let left = Left::new(&panel[..terms * PITCH], [1, PITCH]);
            let y = &mut y[first * outputs..];
            multiply(simd, [rows, terms, whole], left, right, y, outputs, target);
            if rest > 0 {
                let panels = &packed[whole * terms..];
                let right = Right { panels, pitch: [terms * width, width] };
                let last = &mut last[first * width..];
                multiply(simd, [rows, terms, rest], left, right, last, width, target);
            }
        }
    }
    if rest > 0 {
        for (row, last) in y.chunks_exact_mut(outputs).zip(last.chunks_exact(width)) {
            row[whole..].copy_from_slice(&last[..rest]);
        }
    }
}
