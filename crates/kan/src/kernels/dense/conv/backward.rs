//! The gradients of a convolution of functions in closed form.

use updraft_simd::{Isa, over, threads};

use super::chunk::{Job, Task, run};
use super::plan::{DenseConv, Plan};
use crate::kernels::coefficients::{CoefficientGradients, Coefficients};
use crate::kernels::conv::{Shapes, sum_pixels};
use crate::kernels::dense::backward::{Results, add_pieces, sum_functions};
use crate::kernels::dense::layer::{DenseGradients, DenseWeights};
use crate::kernels::dense::pixels::Pixels;
use crate::kernels::dense::plan::{TASKS, Wants};
use crate::kernels::dense::scratch::DenseScratch;
use crate::kernels::pixel_functions::PixelFunctions;
use crate::kernels::winograd::{self, input_gradient, weight_gradient};

/// Computes the gradients of `Σ y·dy`, for `dy`, `[batch, out_channels, pixels]`; `wanted` is
/// overwritten.
///
/// On one instruction set, the result is bitwise equal for any number of threads. The gradients of `x` may
/// round differently if those of the functions' parameters are wanted, too.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
pub(crate) fn dense_conv_backward(
    isa: Isa,
    conv: DenseConv<'_>,
    weights: &DenseWeights<'_>,
    x: &[f32],
    dy: &[f32],
    shapes: Shapes,
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
    let DenseGradients { x: mut dx, seen: _, mut coefficients, mut functions, mut base, bias } =
        wanted;
    if let Some(bias) = bias {
        sum_pixels(dy, shapes.out_pixels(), bias);
    }
    let parameters = &conv.pixel.parameters(weights);
    let has_base = weights.base.is_some();
    if let Some((plan, pixels)) = conv.by_winograd(isa, parameters, has_base, shapes) {
        let of = Winograd { plan: &plan, pixels, coefficients: &conv.coefficients(weights) };
        let wanted = DenseGradients {
            x: dx.as_deref_mut(),
            seen: None,
            coefficients: coefficients.as_deref_mut(),
            functions: functions.as_deref_mut(),
            base: base.as_deref_mut(),
            bias: None,
        };
        if of.gradients(x, dy, wanted, scratch, threads) {
            return;
        }
    }
    let plan = &Plan::new(conv, shapes, has_base);
    let trained = if wants.functions { parameters.trained() } else { 0 };
    let layer = conv.pixel;
    let (channels, edges) = (layer.inputs, conv.geometry.taps() * layer.outputs);
    let pieces = Pieces::new(plan);

    let of_weights = plan.sums_of_piece(pieces.count, wants);
    let (partial, of_functions, spaces) = scratch.split(pieces.count * of_weights, threads);
    of_functions.clear();
    of_functions.resize(pieces.count * channels * trained, 0.0);

    let mut planes = pieces.planes(plan, dx).into_iter();
    let mut results = Results { coefficients, base };
    let mut tasks = Vec::new();
    {
        let mut sums = &mut of_functions[..];
        let mut partial = partial.chunks_mut(of_weights.max(1));
        for piece in 0..pieces.count {
            let mut of_piece = match partial.next() {
                Some(partial) => {
                    let (coefficients, base) =
                        partial.split_at_mut(channels * layer.count() * edges);
                    Results { coefficients: Some(coefficients), base: Some(base) }
                }
                None => std::mem::take(&mut results),
            };
            for (group, chunk) in plan.chunks() {
                tasks.push(Task {
                    group,
                    blocks: pieces.blocks_of(plan, piece),
                    dx: planes.next().unwrap_or_default(),
                    results: of_piece.take(chunk.len() * edges, layer.count()),
                    sums: sums.split_off_mut(..chunk.len() * trained).unwrap_or_default(),
                    chunk,
                });
            }
        }
    }
    let job = &Job { plan, weights, parameters, x, dy, wants };
    over(tasks, spaces, |_, task, space| run(vectors, job, task, space));

    if of_weights > 0 {
        let pieces: Vec<&[f32]> = partial.chunks(of_weights).collect();
        let each = layer.count() * edges;
        let tasks: Vec<_> = (0..channels).map(|_| results.take(edges, layer.count())).collect();
        over(tasks, spaces, |channel, results, _| {
            if let Some(coefficients) = results.coefficients {
                add_pieces(&pieces, channel * each, coefficients);
            }
            if let Some(base) = results.base {
                add_pieces(&pieces, channels * each + channel * edges, base);
            }
        });
    }
    if let Some(functions) = functions {
        sum_functions(of_functions, [channels, channels / layer.groups, trained], functions);
    }
}

/// A convolution by Winograd's algorithm.
struct Winograd<'a> {
    plan: &'a winograd::Plan,
    pixels: Pixels<'a>,
    coefficients: &'a Coefficients<'a>,
}

impl Winograd<'_> {
    /// Computes the gradients, and returns whether all sums are finite; otherwise the gradients are
    /// unspecified.
    fn gradients(
        &self,
        x: &[f32],
        dy: &[f32],
        wanted: DenseGradients<'_>,
        scratch: &mut DenseScratch,
        threads: usize,
    ) -> bool {
        let &Self { plan, pixels, coefficients } = self;
        let DenseGradients { x: dx, coefficients: of_coefficients, functions, base, .. } = wanted;
        let layer = pixels.layer;
        if dx.is_some() || functions.is_some() {
            let (packed, sums, spaces) = scratch.split(plan.input_gradient_len(), threads);
            let trained = if functions.is_some() { pixels.trained() } else { 0 };
            sums.clear();
            sums.resize(plan.pieces_of_images().count() * layer.inputs * trained, 0.0);
            let of = coefficients;
            if !input_gradient(plan, pixels, of, x, dy, dx, sums, packed, spaces) {
                return false;
            }
            if let Some(functions) = functions {
                let of_group = layer.inputs / layer.groups;
                sum_functions(sums, [layer.inputs, of_group, trained], functions);
            }
        }
        let wanted = CoefficientGradients { functions: of_coefficients, base, factors: None };
        if !wanted.is_wanted() {
            return true;
        }
        let (sums, _, spaces) = scratch.split(plan.weight_gradient_len(), threads);
        weight_gradient(plan, pixels, coefficients, x, dy, wanted, sums, spaces)
    }
}

/// The partition of the batch: it depends on the convolution and the images, not on the number of
/// threads, so that the order of sums does not either.
pub(super) struct Pieces {
    pub(super) count: usize,
    /// Blocks of images in a piece: no pixel is seen from two pieces.
    each: usize,
}

impl Pieces {
    pub(super) fn new(plan: &Plan<'_>) -> Self {
        let images = plan.shapes.batch.div_ceil(plan.region.images_of_block());
        let wanted = (TASKS / plan.chunk_count()).max(1);
        let each = images.div_ceil(wanted).max(1);
        Self { count: images.div_ceil(each), each }
    }

    fn blocks_of(&self, plan: &Plan<'_>, piece: usize) -> std::ops::Range<usize> {
        let of_piece = self.each * plan.region.blocks_of_image();
        piece * of_piece..((piece + 1) * of_piece).min(plan.region.blocks())
    }

    /// The gradients of each task's pixels, which become 0: a slice for each of its images and
    /// channels.
    fn planes<'a>(&self, plan: &Plan<'_>, dx: Option<&'a mut [f32]>) -> Vec<Vec<&'a mut [f32]>> {
        let (channels, chunks) = (plan.conv.pixel.inputs, plan.chunk_count());
        let mut tasks: Vec<Vec<&mut [f32]>> = Vec::new();
        tasks.resize_with(self.count * chunks, Vec::new);
        let Some(dx) = dx else { return tasks };
        dx.fill(0.0);
        let images = self.each * plan.region.images_of_block();
        let chunk_of: Vec<usize> = plan
            .chunks()
            .enumerate()
            .flat_map(|(index, (_, chunk))| chunk.map(move |_| index))
            .collect();
        // An image of padding alone has no pixels.
        let pixels = plan.shapes.in_pixels().max(1);
        for (index, plane) in dx.chunks_exact_mut(pixels).enumerate() {
            let (image, channel) = (index / channels, index % channels);
            tasks[image / images * chunks + chunk_of[channel]].push(plane);
        }
        tasks
    }
}

impl Plan<'_> {
    /// Numbers of the sums of a piece's gradients of weights, 0 if there is one piece.
    fn sums_of_piece(&self, pieces: usize, wants: Wants) -> usize {
        if wants.weights && pieces > 1 { self.weights() } else { 0 }
    }
}
