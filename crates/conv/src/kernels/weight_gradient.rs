//! The gradient of a convolution's weights.

use updraft_simd::pixels::transpose;
use updraft_simd::{Cut, Isa, over, threads};

use super::bf16;
use super::depthwise::{Depthwise, Planes};
use super::direct::{LineWeightJob, WeightJob};
use super::geometry::ConvGeometry;
use super::packing::{padded_image, padded_len, taps_of};
use super::plan::Windows;
use super::scratch::Scratch;
use super::strategy::{Algorithm, Pass, Rows, Strategy, strategy};
use super::winograd::Winograd;

/// Chunks of a batch whose weight gradients are summed one after the other.
///
/// Fixed by the shape alone, so that the sums do not depend on the number of threads.
const CHUNKS: usize = 16;

/// The most numbers that the chunks' partial sums may hold, 64 MiB.
const MOST_PARTIAL: usize = 16 << 20;

/// The weights' gradient: `dw = ∂(Σ y·dy)/∂w`.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
pub fn weight_gradient(
    isa: Isa,
    geometry: &ConvGeometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let shape = geometry.shape();
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    assert_eq!(dw.len(), geometry.weight_len(), "numbers of the weights");
    assert_eq!(dy.len(), geometry.output_len(), "numbers of the output");
    let Strategy { algorithm, isa, .. } = strategy(isa, geometry, Pass::WeightGradient);
    let batch = [shape.batch, shape.batch.div_ceil(CHUNKS)];
    if algorithm == Algorithm::DepthwiseByPixel {
        let planes = Planes::forward(isa, geometry);
        return planes.weight_gradient(x, dy, dw, batch, scratch, asked_threads);
    }
    if algorithm == Algorithm::DepthwiseByChannel {
        let depthwise = Depthwise::forward(isa, geometry);
        return depthwise.weight_gradient(x, dy, dw, batch, scratch, asked_threads);
    }
    if algorithm == Algorithm::Bf16Tiles {
        return bf16::weight_gradient(isa, geometry, x, dy, dw, scratch, asked_threads);
    }
    let windows = Windows::of(geometry);
    let [inputs, outputs] = windows.channels;
    let lanes = isa.lanes();
    let blocks = outputs.div_ceil(lanes);
    let run_len = if shape.kernel[1] == 3 && shape.dilation[1] == 1 { 3 } else { 1 };
    let taps = taps_of(shape, &windows);
    let runs: Vec<u32> = taps.iter().copied().step_by(run_len).collect();
    let [output_rows, output_columns] = geometry.output();
    let pixels = output_rows * output_columns;
    let padded_len = padded_len(windows.padded, shape.input, inputs);
    let row_step = shape.stride[0] * windows.padded.size[1];
    let winograd = (algorithm == Algorithm::Winograd).then(|| Winograd::forward(isa, geometry));
    let lines = (algorithm == Algorithm::DirectByPixel)
        .then(|| Rows::of(geometry, Pass::WeightGradient))
        .flatten();
    let (sums_len, by_pixel_len) = match lines {
        Some(_) => (outputs * taps.len() * lanes, 0),
        None => (taps.len() * blocks * lanes, pixels * blocks * lanes),
    };
    let all_sums = shape.groups * sums_len;
    let chunk = shape.batch.div_ceil(CHUNKS.min(MOST_PARTIAL / all_sums).max(2));
    let chunks = shape.batch.div_ceil(chunk);
    let winograd = winograd.map(|all| all.with_at_most(chunk));
    let threads = threads(asked_threads).min(chunks);
    let [points_len, own_len] = winograd.as_ref().map_or([0; 2], Winograd::gradient_lens);
    let (sums, mut of_threads) = scratch.split(
        chunks * all_sums,
        threads,
        (shape.groups * points_len + own_len).max(padded_len + by_pixel_len),
    );
    let x_len = x.len() / shape.batch;
    let dy_len = dy.len() / shape.batch;
    if winograd.is_none() {
        of_threads.iter_mut().for_each(|own| own[..padded_len].fill(0.0));
    }
    over(Cut::new(sums, all_sums), &mut of_threads, |index, sums, own| {
        let samples = index * chunk..((index + 1) * chunk).min(shape.batch);
        if let Some(winograd) = &winograd {
            let (points, own) = own.split_at_mut(shape.groups * points_len);
            points.fill(0.0);
            for first in samples.clone().step_by(winograd.together()) {
                let together = winograd.together().min(samples.end - first);
                for (group, points) in points.chunks_exact_mut(points_len).enumerate() {
                    let part = |len: usize, sample: usize| {
                        let start = (first + sample) * len + group * len / shape.groups;
                        start..start + len / shape.groups
                    };
                    let x = |sample| &x[part(x_len, sample)];
                    let dy = |sample| &dy[part(dy_len, sample)];
                    winograd.add_gradient(together, x, dy, own, points);
                }
            }
            let mut groups = points.chunks_exact(points_len).zip(sums.chunks_exact_mut(sums_len));
            if groups.all(|(points, sums)| winograd.weight_gradients(points, sums)) {
                return;
            }
        }
        let (own_image, by_pixel) = own.split_at_mut(padded_len);
        if winograd.is_some() {
            own_image.fill(0.0);
        }
        sums.fill(0.0);
        for sample in samples {
            for group in 0..shape.groups {
                let x = &x[sample * x_len + group * x_len / shape.groups..][..x_len / shape.groups];
                let dy =
                    &dy[sample * dy_len + group * dy_len / shape.groups..][..dy_len / shape.groups];
                let image = padded_image(isa, x, shape.input, windows.padded, own_image);
                let sums = &mut sums[group * sums_len..][..sums_len];
                if let Some(Rows { rows, columns, row_step }) = lines {
                    let (taps, gradient, channels) = (&taps, dy, outputs);
                    LineWeightJob { image, taps, gradient, channels, rows, columns, row_step }
                        .run(isa, sums);
                    continue;
                }
                transpose(isa, dy, [outputs, pixels], pixels, by_pixel, blocks * lanes);
                let job = WeightJob {
                    image,
                    origin: 0,
                    runs: &runs,
                    run_len,
                    gradient: by_pixel,
                    blocks,
                    rows: output_rows,
                    columns: output_columns,
                    row_step,
                    column_step: shape.stride[1],
                };
                job.run(isa, sums);
            }
        }
    });
    let (total, others) = sums.split_at_mut(all_sums);
    for other in others.chunks_exact(all_sums) {
        for (total, other) in total.iter_mut().zip(other) {
            *total += other;
        }
    }
    for group in 0..shape.groups {
        let sums = &total[group * sums_len..][..sums_len];
        let dw = &mut dw[group * outputs * taps.len()..][..outputs * taps.len()];
        if lines.is_some() {
            for (dw, parts) in dw.iter_mut().zip(sums.chunks_exact(lanes)) {
                *dw = parts.iter().sum();
            }
        } else {
            transpose(isa, sums, [taps.len(), outputs], blocks * lanes, dw, taps.len());
        }
    }
}
