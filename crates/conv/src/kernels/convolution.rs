//! A convolution of a batch, and its input's gradient.

use updraft_simd::pixels::transpose;
use updraft_simd::{Cut, Isa, Pieces, Together, over, threads};

use super::bf16::TilePass;
use super::dense::Dense;
use super::depthwise::{Depthwise, Planes};
use super::direct::{LineJob, TileJob};
use super::elementwise::Activation;
use super::geometry::ConvGeometry;
use super::packing::{pack, padded_image, padded_len, phase_taps};
use super::plan::{Phase, Phases};
use super::sample_end::SampleEnd;
use super::scratch::Scratch;
use super::strategy::{Algorithm, Pass, Rows, Strategy, direct, strategy};
use super::winograd::Winograd;

/// Convolves: `y[n,o] = bias[o] + Σ_i x[n,i] ∗ w[o,i]`, a cross-correlation as is usual in deep
/// learning.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn forward(
    isa: Isa,
    geometry: &ConvGeometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    assert_eq!(y.len(), geometry.output_len(), "numbers of the output");
    let y = Cut::new(y, geometry.output_len() / geometry.shape().batch);
    forward_into(isa, geometry, x, w, bias, Activation::Identity, y, scratch, threads);
}

/// [`forward`] into samples, then an activation, while each sample's result is still in the cache.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub(crate) fn forward_into<'a>(
    isa: Isa,
    geometry: &ConvGeometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    activation: Activation,
    y: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let strategy = strategy(isa, geometry, Pass::Forward);
    forward_by(strategy, geometry, x, w, bias, activation, y, scratch, asked_threads);
}

/// [`forward_into`] by an algorithm that was chosen.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub(super) fn forward_by<'a>(
    strategy: Strategy,
    geometry: &ConvGeometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    activation: Activation,
    y: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    check_lens(geometry, x, w, bias);
    let Strategy { algorithm, isa, .. } = strategy;
    match algorithm {
        Algorithm::DepthwiseByPixel => {
            let planes = Planes::forward(isa, geometry);
            planes.run(x, w, bias, activation, y, scratch, asked_threads);
        }
        Algorithm::DepthwiseByChannel => {
            let depthwise = Depthwise::forward(isa, geometry);
            depthwise.run(x, w, bias, activation, y, scratch, asked_threads);
        }
        Algorithm::Bf16Tiles => {
            let tiles = TilePass::forward(isa, geometry);
            tiles.run(x, w, bias, activation, y, scratch, asked_threads);
        }
        Algorithm::DirectByChannel | Algorithm::DirectByPixel | Algorithm::Winograd => {
            let end = SampleEnd::of(activation);
            dense_by(strategy, geometry, x, w, bias, end, y, scratch, asked_threads);
        }
    }
}

/// A convolution by a dense algorithm that was chosen, of slices whose lengths are checked; `end`
/// ends every sample.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub(super) fn dense_by<'a>(
    strategy: Strategy,
    geometry: &ConvGeometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    end: SampleEnd<'_>,
    y: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let Strategy { algorithm, isa, .. } = strategy;
    let threads = threads(asked_threads);
    let at_most = geometry.shape().batch.div_ceil(threads);
    let dense = Dense::forward(isa, geometry, algorithm).with_at_most(at_most);
    let [packed, starts, points] = dense.packed_lens();
    let (shared, mut of_threads) =
        scratch.split(packed + starts + points, threads, dense.own_len());
    let (packed, shared) = shared.split_at_mut(packed);
    let (starts, points) = shared.split_at_mut(starts);
    dense.pack(w, bias, packed, starts, points);
    dense.run(x, [packed, starts, points], end, y, &mut of_threads);
}

/// Checks the lengths of a convolution's inputs.
///
/// # Panics
/// If the length of a slice differs from `geometry`.
pub(super) fn check_lens(geometry: &ConvGeometry, x: &[f32], w: &[f32], bias: Option<&[f32]>) {
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    assert_eq!(w.len(), geometry.weight_len(), "numbers of the weights");
    if let Some(bias) = bias {
        assert_eq!(bias.len(), geometry.shape().channels[1], "one bias for each output channel");
    }
}

/// The rows of a pass whose lanes are pixels; with Winograd's algorithm, of the samples that are
/// computed directly.
pub(super) fn rows_of(
    algorithm: Algorithm,
    isa: Isa,
    geometry: &ConvGeometry,
    pass: Pass,
) -> Option<Rows> {
    let algorithm = match algorithm {
        Algorithm::Winograd => direct(isa, geometry, pass).0,
        other => other,
    };
    (algorithm == Algorithm::DirectByPixel).then(|| Rows::of(geometry, pass)).flatten()
}

/// The planes of a sample's results.
pub(super) fn planes_of(results: &mut [f32], pixels: usize) -> Vec<&mut [f32]> {
    results.chunks_exact_mut(pixels).collect()
}

/// The data of both passes for the samples that they compute, group by group.
pub(super) struct Samples<'a> {
    /// The numbers of all samples.
    pub(super) of: &'a [f32],
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Numbers of a sample's results in one group.
    pub(super) results: usize,
    pub(super) winograd: Option<&'a Winograd>,
    /// Weights at Winograd's points, group after group.
    pub(super) points: &'a [f32],
    /// The initial values of sums, group after group.
    pub(super) starts: &'a [f32],
    /// The padded image at the start of a thread's work space; its border has to be zeros.
    pub(super) padded_len: usize,
}

impl Samples<'_> {
    /// Computes all results, by Winograd's algorithm where that applies and all is finite, else by
    /// `directly`, with a group, its part of a sample, its initial values and its work space; then
    /// passes each sample to `end`, with its index.
    pub(super) fn compute<'a>(
        &self,
        results: impl Pieces<Piece = &'a mut [f32]>,
        of_threads: &mut [&mut [f32]],
        directly: impl Fn(usize, &[f32], &[f32], &mut [f32], &mut [f32]) + Sync,
        end: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let Self { of, batch, groups, winograd, padded_len, .. } = *self;
        let together = winograd.map_or(1, Winograd::together);
        let sample_len = of.len() / batch;
        let part = |all: &'_ [f32], group: usize| {
            let len = all.len() / groups;
            group * len..(group + 1) * len
        };
        if winograd.is_none() {
            of_threads.iter_mut().for_each(|own| own[..padded_len].fill(0.0));
        }
        over(Together::new(results, together), of_threads, |index, mut results, own| {
            for group in 0..groups {
                let sample = |sample: usize| {
                    let all = &of[(index * together + sample) * sample_len..][..sample_len];
                    &all[part(all, group)]
                };
                let start = &self.starts[part(self.starts, group)];
                let of_group = group * self.results..(group + 1) * self.results;
                let mut is_done = 0;
                if let Some(winograd) = winograd {
                    let mut planes: Vec<_> =
                        results.iter_mut().map(|all| &mut all[of_group.clone()]).collect();
                    let points = &self.points[part(self.points, group)];
                    is_done = !winograd.planes(sample, points, start, own, &mut planes);
                    if is_done != u32::MAX {
                        own[..padded_len].fill(0.0);
                    }
                }
                for (at, results) in results.iter_mut().enumerate() {
                    if is_done >> at & 1 == 0 {
                        directly(group, sample(at), start, own, &mut results[of_group.clone()]);
                    }
                }
            }
            for (at, results) in results.iter_mut().enumerate() {
                end(index * together + at, results);
            }
        });
    }
}

/// The input's gradient: `dx = ∂(Σ y·dy)/∂x`.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
pub fn input_gradient(
    isa: Isa,
    geometry: &ConvGeometry,
    dy: &[f32],
    w: &[f32],
    dx: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    assert_eq!(dx.len(), geometry.input_len(), "numbers of the input");
    let dx = Cut::new(dx, geometry.input_len() / geometry.shape().batch);
    input_gradient_into(isa, geometry, dy, w, dx, scratch, threads);
}

/// [`input_gradient`] into samples.
pub(crate) fn input_gradient_into<'a>(
    isa: Isa,
    geometry: &ConvGeometry,
    dy: &[f32],
    w: &[f32],
    dx: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let shape = geometry.shape();
    assert_eq!(w.len(), geometry.weight_len(), "numbers of the weights");
    assert_eq!(dy.len(), geometry.output_len(), "numbers of the output");
    let (bias, activation) = (None, Activation::Identity);
    let Strategy { algorithm, isa, .. } = strategy(isa, geometry, Pass::InputGradient);
    match algorithm {
        Algorithm::DepthwiseByPixel => {
            let planes = Planes::input_gradient(isa, geometry);
            return planes.run(dy, w, bias, activation, dx, scratch, asked_threads);
        }
        Algorithm::DepthwiseByChannel => {
            let depthwise = Depthwise::input_gradient(isa, geometry);
            return depthwise.run(dy, w, bias, activation, dx, scratch, asked_threads);
        }
        Algorithm::Bf16Tiles => {
            let tiles = TilePass::input_gradient(isa, geometry);
            return tiles.run(dy, w, bias, activation, dx, scratch, asked_threads);
        }
        Algorithm::DirectByChannel | Algorithm::DirectByPixel | Algorithm::Winograd => {}
    }
    let [inputs, outputs] = shape.channels.map(|channels| channels / shape.groups);
    let lanes = isa.lanes();
    let blocks = inputs.div_ceil(lanes);
    let phases = Phases::of(geometry);
    let padded_len = padded_len(phases.padded, geometry.output(), outputs);
    let pixels = shape.input[0] * shape.input[1];
    let jobs: Vec<PhaseJob<'_>> = {
        let mut first = 0;
        let jobs = phases.all.iter().map(|phase| {
            let taps = phase_taps(phase, phases.padded, outputs);
            let weights = first;
            first += blocks * taps.len() * lanes;
            PhaseJob { phase, taps, weights }
        });
        jobs.collect()
    };
    let weight_len: usize = jobs.iter().map(|job| blocks * job.taps.len() * lanes).sum();
    let lines = rows_of(algorithm, isa, geometry, Pass::InputGradient);
    let threads = threads(asked_threads);
    let by_pixel_len = match lines {
        Some(_) => LineJob::panel_len(isa, jobs[0].taps.len()),
        None => pixels * blocks * lanes,
    };
    let winograd = (algorithm == Algorithm::Winograd).then(|| {
        Winograd::input_gradient(isa, geometry).with_at_most(shape.batch.div_ceil(threads))
    });
    let [point_len, own_len] = winograd.as_ref().map_or([0; 2], Winograd::lens);
    let start_len = blocks * lanes;
    let (shared, mut of_threads) = scratch.split(
        shape.groups * (weight_len + start_len + point_len),
        threads,
        own_len.max(padded_len + by_pixel_len),
    );
    let (packed, starts) = shared.split_at_mut(shape.groups * weight_len);
    let (starts, points) = starts.split_at_mut(shape.groups * start_len);
    starts.fill(0.0);
    let [kernel_rows, kernel_columns] = shape.kernel;
    for group in 0..shape.groups {
        for PhaseJob { phase, taps, weights } in &jobs {
            let [rows, columns] = &phase.taps;
            let packed = &mut packed[group * weight_len + weights..][..blocks * taps.len() * lanes];
            let kernel = kernel_rows * kernel_columns;
            let w = &w[group * outputs * inputs * kernel..];
            pack(packed, [taps.len(), lanes], w, [inputs, kernel], |tap| {
                let (output, tap) =
                    (tap / (rows.len() * columns.len()), tap % (rows.len() * columns.len()));
                let (row, column) = (rows[tap / columns.len()].0, columns[tap % columns.len()].0);
                output * inputs * kernel + row * kernel_columns + column
            });
        }
        if let Some(winograd) = &winograd {
            let packed = &packed[group * weight_len..][..weight_len];
            winograd.weights(packed, &mut points[group * point_len..][..point_len]);
        }
    }
    let packed = &*packed;
    let samples = Samples {
        of: dy,
        batch: shape.batch,
        groups: shape.groups,
        results: inputs * pixels,
        winograd: winograd.as_ref(),
        points,
        starts,
        padded_len,
    };
    let directly = |group: usize, dy: &[f32], start: &[f32], own: &mut [f32], dx: &mut [f32]| {
        let (own_image, by_pixel) = own.split_at_mut(padded_len);
        let image = padded_image(isa, dy, geometry.output(), phases.padded, own_image);
        if let Some(lines) = lines {
            let weights = &packed[group * weight_len..][..weight_len];
            let job = lines.job(image, &jobs[0].taps, weights, start, inputs);
            return job.run(isa, &mut planes_of(dx, pixels), by_pixel);
        }
        for PhaseJob { phase, taps, weights } in &jobs {
            let pixel = (phase.first[0] * shape.input[1] + phase.first[1]) * blocks * lanes;
            let weights = group * weight_len + weights;
            let job = TileJob {
                // The results of a phase without taps are zero.
                image: if taps.is_empty() { &[0.0] } else { image },
                origin: 0,
                taps,
                weights: &packed[weights..][..blocks * taps.len() * lanes],
                start,
                blocks,
                rows: phase.pixels[0],
                columns: phase.pixels[1],
                row_step: if taps.is_empty() { 0 } else { phases.padded.size[1] },
                column_step: usize::from(!taps.is_empty()),
                output_row: shape.stride[0] * shape.input[1] * blocks * lanes,
                output_column: shape.stride[1] * blocks * lanes,
            };
            job.run(isa, &mut by_pixel[pixel..]);
        }
        transpose(isa, by_pixel, [pixels, inputs], blocks * lanes, dx, pixels);
    };
    samples.compute(dx, &mut of_threads, directly, |_, _| ());
}

/// A phase, its windows' taps, and the offset of its weights.
struct PhaseJob<'a> {
    phase: &'a Phase,
    taps: Vec<u32>,
    weights: usize,
}
