//! The gradients of a layer of functions in closed form.

use updraft_simd::{Cut, Isa, over, threads};

use super::chunk::{Job, Task, pack_dy, run, transpose_dy, write_lines};
use super::layer::{DenseGradients, DenseInput, DenseLayer, DenseWeights, PITCH, ROWS};
use super::plan::{Layout, Plan, Wants};
use super::scratch::DenseScratch;
use crate::kernels::backward::sum_rows;

/// Computes the gradients of `Σ y·dy`, for `dy`, `[batch, outputs]`; `wanted` is overwritten.
///
/// On one instruction set, the result is bitwise equal for any number of threads.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
pub(crate) fn dense_backward(
    isa: Isa,
    layer: &DenseLayer,
    weights: &DenseWeights<'_>,
    input: DenseInput<'_>,
    dy: &[f32],
    wanted: DenseGradients<'_>,
    scratch: &mut DenseScratch,
    asked_threads: usize,
) {
    let (vectors, threads) = (isa.vectors(), threads(asked_threads));
    let wants = Wants::of(&wanted);
    if dy.is_empty() {
        wanted.set_to_zero();
        return;
    }
    let DenseGradients { x: dx, seen: dseen, coefficients, functions, base, bias } = wanted;
    if let Some(bias) = bias {
        sum_rows(dy, bias);
    }
    let (inputs, outputs, has_base) = (layer.inputs, layer.outputs, weights.base.is_some());
    let plan = Plan::new(layer, has_base, dy.len() / outputs);
    let parameters = &layer.parameters(weights);
    let trained = if wants.functions { parameters.trained() } else { 0 };

    let layout = Layout::new(isa, layer, has_base, &plan, wants);
    let (shared, of_functions, spaces) = scratch.split(layout.len(), threads);
    let (packed, shared) = shared.split_at_mut(layout.packed);
    let (transposed, shared) = shared.split_at_mut(layout.transposed);
    let (of_x, shared) = shared.split_at_mut(layout.of_x);
    let (of_seen, partial) = shared.split_at_mut(layout.of_seen);
    of_functions.clear();
    of_functions.resize(plan.pieces * inputs * trained, 0.0);

    let rows_of = |block: usize| &dy[block * ROWS * outputs..][..plan.rows_of(block) * outputs];
    over(Cut::new(&mut *packed, layout.block), spaces, |block, to, _| {
        pack_dy(vectors, rows_of(block), outputs, to);
    });
    over(Cut::new(&mut *transposed, layout.block), spaces, |block, to, _| {
        transpose_dy(vectors, rows_of(block), outputs, to);
    });

    let mut results = Results { coefficients, base };
    let mut tasks = Vec::new();
    {
        let (mut of_x, mut of_seen) = (&mut *of_x, &mut *of_seen);
        let mut sums = &mut of_functions[..];
        let mut partial = partial.chunks_mut(layout.of_weights.max(1));
        for piece in 0..plan.pieces {
            let mut of_piece = match partial.next() {
                Some(partial) => {
                    let (coefficients, base) =
                        partial.split_at_mut(inputs * layer.count() * outputs);
                    Results { coefficients: Some(coefficients), base: Some(base) }
                }
                None => std::mem::take(&mut results),
            };
            let blocks = plan.blocks_of(piece);
            for chunk in layer.chunks(has_base) {
                let count = chunk.len() * blocks.len() * PITCH;
                let edges = chunk.len() * outputs;
                tasks.push(Task {
                    blocks: blocks.clone(),
                    of_x: of_x.split_off_mut(..count),
                    of_seen: of_seen.split_off_mut(..count),
                    results: of_piece.take(edges, layer.count()),
                    sums: sums.split_off_mut(..chunk.len() * trained).unwrap_or_default(),
                    chunk,
                });
            }
        }
    }
    let job = Job { layer, weights, parameters, input, plan, dy: [packed, transposed], wants };
    over(tasks, spaces, |_, task, space| run(vectors, &job, task, space));

    let pieces: Vec<&[f32]> = partial.chunks(layout.of_weights.max(1)).collect();
    if !pieces.is_empty() {
        let edges = inputs * outputs;
        let tasks: Vec<_> = std::iter::from_fn({
            let mut done = 0;
            move || {
                let some = results.take(outputs, layer.count());
                done += 1;
                (done <= inputs).then_some(some)
            }
        })
        .collect();
        over(tasks, spaces, |input, results, _| {
            let each = layer.count() * outputs;
            if let Some(coefficients) = results.coefficients {
                add_pieces(&pieces, input * each, coefficients);
            }
            if let Some(base) = results.base {
                add_pieces(&pieces, edges * layer.count() + input * outputs, base);
            }
        });
    }
    for (dx, buffer) in [(dx, &*of_x), (dseen, &*of_seen)] {
        let Some(dx) = dx else { continue };
        over(Cut::new(dx, ROWS * inputs), spaces, |block, dx, _| {
            for chunk in layer.chunks(has_base) {
                let place = plan.place(inputs, &chunk, block);
                let lines = &buffer[place..][..chunk.len() * PITCH];
                write_lines(vectors, lines, chunk, inputs, dx);
            }
        });
    }
    if let Some(functions) = functions {
        let of_group = inputs / layer.groups;
        sum_functions(of_functions, [inputs, of_group, trained], functions);
    }
}

/// Sums the gradients of the functions' parameters, `[pieces][inputs][parameters]`, for each group of
/// so many inputs.
pub(super) fn sum_functions(
    sums: &[f64],
    [inputs, of_group, trained]: [usize; 3],
    functions: &mut [f32],
) {
    for (at, number) in functions.iter_mut().enumerate() {
        let (group, parameter) = (at / trained, at % trained);
        let of_piece = |piece: &[f64]| -> f64 {
            let own = &piece[group * of_group * trained..][..of_group * trained];
            own.iter().skip(parameter).step_by(trained).sum()
        };
        *number = sums.chunks_exact(inputs * trained).map(of_piece).sum::<f64>() as f32;
    }
}

/// Sums numbers of all pieces.
pub(super) fn add_pieces(pieces: &[&[f32]], from: usize, to: &mut [f32]) {
    to.copy_from_slice(&pieces[0][from..][..to.len()]);
    for piece in &pieces[1..] {
        for (sum, number) in to.iter_mut().zip(&piece[from..]) {
            *sum += number;
        }
    }
}

/// The gradients of some inputs' weights.
#[derive(Debug, Default)]
pub(super) struct Results<'a> {
    pub(super) coefficients: Option<&'a mut [f32]>,
    pub(super) base: Option<&'a mut [f32]>,
}

impl<'a> Results<'a> {
    /// Splits those of so many edges off.
    pub(super) fn take(&mut self, edges: usize, count: usize) -> Self {
        let off = |all: &mut Option<&'a mut [f32]>, count: usize| {
            all.as_mut().and_then(|all| all.split_off_mut(..count))
        };
        Self {
            coefficients: off(&mut self.coefficients, edges * count),
            base: off(&mut self.base, edges),
        }
    }
}
