//! The three passes of a convolution over a batch.

use super::activation::Activation;
use super::cpu::{LineWeightJob, PointwiseKernels, TileJob, WeightJob, lanes, transpose};
use super::geometry::ConvGeometry;
use super::lines::{Lines, are_few, for_rows};
use super::packing::{pack, padded_image, padded_len, phase_taps, taps_of};
use super::parallel::{Cut, Pieces, over, over_items, threads};
use super::path::Path;
use super::plan::{Phase, Phases, Windows};
use super::scratch::Scratch;

/// Chunks of a batch whose weight gradients are summed one after the other.
///
/// Fixed by the shape alone, so that the sums do not depend on the number of threads.
const CHUNKS: usize = 16;

/// The most numbers that the chunks' partial sums may hold, 64 MiB.
const MOST_PARTIAL: usize = 16 << 20;

/// Convolves: `y[n,o] = bias[o] + Σ_i x[n,i] ∗ w[o,i]`, a cross-correlation as deep learning has it.
///
/// # Panics
/// If a slice has another length than `geometry` says, or the path is not available on this CPU.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn forward(
    path: Path,
    geometry: &ConvGeometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    forward_activated(path, geometry, x, w, bias, Activation::Identity, y, scratch, threads);
}

/// [`forward`], then an activation, while each sample's result is still in the cache.
///
/// # Panics
/// As [`forward`].
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn forward_activated(
    path: Path,
    geometry: &ConvGeometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    activation: Activation,
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    assert_eq!(y.len(), geometry.output_len(), "numbers of the output");
    let y = Cut::new(y, geometry.output_len() / geometry.shape().batch);
    forward_into(path, geometry, x, w, bias, activation, y, scratch, threads);
}

/// [`forward_activated`] into samples.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub(crate) fn forward_into<'a>(
    path: Path,
    geometry: &ConvGeometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    activation: Activation,
    y: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let shape = geometry.shape();
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    assert_eq!(w.len(), geometry.weight_len(), "numbers of the weights");
    let pointwise = PointwiseKernels::of(path);
    if let Some(bias) = bias {
        assert_eq!(bias.len(), shape.channels[1], "one bias for each output channel");
    }
    let windows = Windows::of(geometry);
    let [inputs, outputs] = windows.channels;
    let path = for_rows(path, geometry.output()[1], shape.stride, outputs);
    let lanes = lanes(path);
    let blocks = outputs.div_ceil(lanes);
    let taps = taps_of(shape, &windows);
    let pixels = geometry.output()[0] * geometry.output()[1];
    let padded_len = padded_len(windows.padded, shape.input, inputs);
    let (weight_len, start_len) = (blocks * taps.len() * lanes, blocks * lanes);
    let row_step = shape.stride[0] * windows.padded.size[1];
    let lines = Lines::of(path, geometry.output(), [row_step, shape.stride[1]], outputs);
    let threads = threads(asked_threads);
    let by_pixel_len = if lines.is_some() { 0 } else { pixels * blocks * lanes };
    let (shared, of_threads) =
        scratch.split(shape.groups * (weight_len + start_len), threads, padded_len + by_pixel_len);
    let (packed, starts) = shared.split_at_mut(shape.groups * weight_len);
    for group in 0..shape.groups {
        let packed = &mut packed[group * weight_len..][..weight_len];
        let w = &w[group * outputs * taps.len()..];
        pack(packed, [taps.len(), lanes], w, [outputs, taps.len()], |tap| tap);
        for (lane, start) in starts[group * start_len..][..start_len].iter_mut().enumerate() {
            let channel = group * outputs + lane;
            *start = bias.filter(|_| lane < outputs).map_or(0.0, |bias| bias[channel]);
        }
    }
    let (packed, starts) = (&*packed, &*starts);
    let image_len = shape.channels[0] * shape.input[0] * shape.input[1];
    of_threads.iter_mut().for_each(|own| own[..padded_len].fill(0.0));
    over(y, of_threads, |index, y, own| {
        let (own_image, by_pixel) = own.split_at_mut(padded_len);
        let x = &x[index * image_len..][..image_len];
        for group in 0..shape.groups {
            let x = &x[group * image_len / shape.groups..][..image_len / shape.groups];
            let image = padded_image(path, x, shape.input, windows.padded, own_image);
            let weights = &packed[group * weight_len..][..weight_len];
            let start = &starts[group * start_len..][..start_len];
            let y = &mut y[group * outputs * pixels..][..outputs * pixels];
            if let Some(lines) = lines {
                lines.job(image, &taps, weights, start, outputs).run(path, y);
                continue;
            }
            let job = TileJob {
                image,
                origin: 0,
                taps: &taps,
                weights,
                start,
                blocks,
                rows: geometry.output()[0],
                columns: geometry.output()[1],
                row_step,
                column_step: shape.stride[1],
                output_row: geometry.output()[1] * blocks * lanes,
                output_column: blocks * lanes,
            };
            job.run(path, by_pixel);
            transpose(path, by_pixel, [pixels, outputs], blocks * lanes, y, pixels);
        }
        if activation != Activation::Identity {
            pointwise.values_in_place(activation, y);
        }
    });
}

/// The input's gradient: `dx = ∂(Σ y·dy)/∂x`.
///
/// # Panics
/// If a slice has another length than `geometry` says, or the path is not available on this CPU.
pub fn input_gradient(
    path: Path,
    geometry: &ConvGeometry,
    dy: &[f32],
    w: &[f32],
    dx: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    assert_eq!(dx.len(), geometry.input_len(), "numbers of the input");
    let dx = Cut::new(dx, geometry.input_len() / geometry.shape().batch);
    input_gradient_into(path, geometry, dy, w, dx, scratch, threads);
}

/// [`input_gradient`] into samples.
pub(crate) fn input_gradient_into<'a>(
    path: Path,
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
    let [inputs, outputs] = shape.channels.map(|channels| channels / shape.groups);
    let path = for_rows(path, shape.input[1], shape.stride, inputs);
    let lanes = lanes(path);
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
    let lines = if shape.stride == [1, 1] {
        Lines::of(path, shape.input, [phases.padded.size[1], 1], inputs)
    } else {
        None
    };
    let threads = threads(asked_threads);
    let by_pixel_len = if lines.is_some() { 0 } else { pixels * blocks * lanes };
    let (shared, of_threads) = scratch.split(
        shape.groups * weight_len + blocks * lanes,
        threads,
        padded_len + by_pixel_len,
    );
    let (packed, start) = shared.split_at_mut(shape.groups * weight_len);
    start.fill(0.0);
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
    }
    let (packed, start) = (&*packed, &*start);
    let image_len = shape.channels[1] * geometry.output()[0] * geometry.output()[1];
    of_threads.iter_mut().for_each(|own| own[..padded_len].fill(0.0));
    over(dx, of_threads, |index, dx, own| {
        let (own_image, by_pixel) = own.split_at_mut(padded_len);
        let dy = &dy[index * image_len..][..image_len];
        for group in 0..shape.groups {
            let dy = &dy[group * image_len / shape.groups..][..image_len / shape.groups];
            let image = padded_image(path, dy, geometry.output(), phases.padded, own_image);
            let dx = &mut dx[group * inputs * pixels..][..inputs * pixels];
            if let Some(lines) = lines {
                let weights = &packed[group * weight_len..][..weight_len];
                lines.job(image, &jobs[0].taps, weights, start, inputs).run(path, dx);
                continue;
            }
            for PhaseJob { phase, taps, weights } in &jobs {
                let pixel = (phase.first[0] * shape.input[1] + phase.first[1]) * blocks * lanes;
                let job = TileJob {
                    // A phase without taps is zero wherever its windows would lie.
                    image: if taps.is_empty() { &[0.0] } else { image },
                    origin: 0,
                    taps,
                    weights: &packed[group * weight_len + weights..][..blocks * taps.len() * lanes],
                    start,
                    blocks,
                    rows: phase.pixels[0],
                    columns: phase.pixels[1],
                    row_step: if taps.is_empty() { 0 } else { phases.padded.size[1] },
                    column_step: usize::from(!taps.is_empty()),
                    output_row: shape.stride[0] * shape.input[1] * blocks * lanes,
                    output_column: shape.stride[1] * blocks * lanes,
                };
                job.run(path, &mut by_pixel[pixel..]);
            }
            transpose(path, by_pixel, [pixels, inputs], blocks * lanes, dx, pixels);
        }
    });
}

/// A phase, its windows' taps, and where its weights start.
struct PhaseJob<'a> {
    phase: &'a Phase,
    taps: Vec<u32>,
    weights: usize,
}

/// The weights' gradient: `dw = ∂(Σ y·dy)/∂w`.
///
/// # Panics
/// If a slice has another length than `geometry` says, or the path is not available on this CPU.
pub fn weight_gradient(
    path: Path,
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
    let windows = Windows::of(geometry);
    let [inputs, outputs] = windows.channels;
    let path = for_rows(path, geometry.output()[1], shape.stride, outputs);
    let lanes = lanes(path);
    let blocks = outputs.div_ceil(lanes);
    let run_len = if shape.kernel[1] == 3 && shape.dilation[1] == 1 { 3 } else { 1 };
    let taps = taps_of(shape, &windows);
    let runs: Vec<u32> = taps.iter().copied().step_by(run_len).collect();
    let [output_rows, output_columns] = geometry.output();
    let pixels = output_rows * output_columns;
    let padded_len = padded_len(windows.padded, shape.input, inputs);
    let row_step = shape.stride[0] * windows.padded.size[1];
    let lines = if are_few(outputs, lanes) {
        Lines::of(path, geometry.output(), [row_step, shape.stride[1]], outputs)
    } else {
        None
    };
    let (sums_len, by_pixel_len) = match lines {
        Some(_) => (outputs * taps.len() * lanes, 0),
        None => (taps.len() * blocks * lanes, pixels * blocks * lanes),
    };
    let all_sums = shape.groups * sums_len;
    let chunk = shape.batch.div_ceil(CHUNKS.min(MOST_PARTIAL / all_sums).max(2));
    let chunks = shape.batch.div_ceil(chunk);
    let threads = threads(asked_threads);
    let (sums, of_threads) = scratch.split(chunks * all_sums, threads, padded_len + by_pixel_len);
    let x_len = x.len() / shape.batch;
    let dy_len = dy.len() / shape.batch;
    of_threads.iter_mut().for_each(|own| own[..padded_len].fill(0.0));
    over_items(sums, all_sums, of_threads, |index, sums, own| {
        let (own_image, by_pixel) = own.split_at_mut(padded_len);
        sums.fill(0.0);
        for sample in index * chunk..((index + 1) * chunk).min(shape.batch) {
            for group in 0..shape.groups {
                let x = &x[sample * x_len + group * x_len / shape.groups..][..x_len / shape.groups];
                let dy =
                    &dy[sample * dy_len + group * dy_len / shape.groups..][..dy_len / shape.groups];
                let image = padded_image(path, x, shape.input, windows.padded, own_image);
                let sums = &mut sums[group * sums_len..][..sums_len];
                if let Some(Lines { rows, columns, row_step }) = lines {
                    let (taps, gradient, channels) = (&taps, dy, outputs);
                    LineWeightJob { image, taps, gradient, channels, rows, columns, row_step }
                        .run(path, sums);
                    continue;
                }
                transpose(path, dy, [outputs, pixels], pixels, by_pixel, blocks * lanes);
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
                job.run(path, sums);
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
            transpose(path, sums, [taps.len(), outputs], blocks * lanes, dw, taps.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use updraft_testing::scattered;

    use super::*;
    use crate::kernels::geometry::ConvShape;
    use crate::kernels::reference;

    fn wide(values: &[f32]) -> Vec<f64> {
        values.iter().map(|&value| value.into()).collect()
    }

    fn assert_near(given: &[f32], right: &[f64], what: &str) {
        assert_eq!(given.len(), right.len());
        let largest = right.iter().fold(1e-3_f64, |most, value| most.max(value.abs()));
        for (index, (&given, right)) in given.iter().zip(right).enumerate() {
            let error = (f64::from(given) - right).abs();
            assert!(error <= 2e-6 * largest.max(1.0), "{what}[{index}]: {given} is not {right}");
        }
    }

    fn paths() -> impl Iterator<Item = Path> {
        Path::ALL.into_iter().filter(|path| path.is_available())
    }

    struct Case {
        geometry: ConvGeometry,
        x: Vec<f32>,
        w: Vec<f32>,
        dy: Vec<f32>,
        bias: Vec<f32>,
    }

    impl Case {
        fn new(shape: ConvShape) -> Option<Self> {
            let geometry = ConvGeometry::try_new(shape).ok()?;
            Some(Self {
                geometry,
                x: scattered(1, geometry.input_len()),
                w: scattered(2, geometry.weight_len()),
                dy: scattered(3, geometry.output_len()),
                bias: scattered(4, shape.channels[1]),
            })
        }

        fn run(&self, path: Path, threads: usize) -> [Vec<f32>; 3] {
            let Self { geometry, x, w, dy, bias } = self;
            // What a scratch holds before must not matter.
            let mut scratch = Scratch::new();
            let (shared, own) = scratch.split(1 << 16, threads, 1 << 16);
            shared.fill(f32::NAN);
            own.iter_mut().for_each(|own| own.fill(f32::NAN));
            let s = &mut scratch;
            let mut y = vec![f32::NAN; geometry.output_len()];
            forward(path, geometry, x, w, Some(bias), &mut y, s, threads);
            let mut dx = vec![f32::NAN; geometry.input_len()];
            input_gradient(path, geometry, dy, w, &mut dx, s, threads);
            let mut dw = vec![f32::NAN; geometry.weight_len()];
            weight_gradient(path, geometry, x, dy, &mut dw, s, threads);
            [y, dx, dw]
        }

        fn check(&self, path: Path) {
            let Self { geometry, x, w, dy, bias } = self;
            let [x, w, dy, bias] = [x, w, dy, bias].map(|values| wide(values));
            let [y, dx, dw] = self.run(path, 1);
            let told = format!("{path} {:?}", geometry.shape());
            let right = reference::forward(geometry, &x, &w, Some(&bias));
            assert_near(&y, &right, &format!("y of {told}"));
            let right = reference::input_gradient(geometry, &dy, &w);
            assert_near(&dx, &right, &format!("dx of {told}"));
            let right = reference::weight_gradient(geometry, &x, &dy);
            assert_near(&dw, &right, &format!("dw of {told}"));
        }
    }

    #[test]
    fn shapes_of_real_networks_are_right() {
        let base = |batch, channels, side, kernel| {
            ConvShape::new(batch, channels, [side, side], [kernel, kernel])
        };
        for shape in [
            ConvShape { padding: [1, 1], ..base(2, [3, 16], 32, 3) },
            ConvShape { padding: [1, 1], stride: [2, 2], ..base(3, [16, 32], 16, 3) },
            ConvShape { padding: [1, 1], ..base(2, [32, 32], 8, 3) },
            ConvShape { stride: [2, 2], ..base(2, [16, 32], 16, 1) },
            base(2, [32, 16], 16, 1),
            // More taps than one part of a sum has, and rows that end within a vector.
            ConvShape { padding: [1, 1], ..base(1, [33, 27], 27, 3) },
            ConvShape { padding: [2, 2], ..base(1, [8, 40], 13, 5) },
            ConvShape { padding: [3, 3], stride: [2, 2], ..base(1, [3, 24], 21, 7) },
            ConvShape { padding: [1, 1], groups: 12, ..base(2, [12, 12], 9, 3) },
            ConvShape { padding: [1, 1], groups: 5, ..base(3, [5, 10], 37, 3) },
            ConvShape { padding: [2, 2], dilation: [2, 2], groups: 2, ..base(2, [8, 36], 11, 3) },
            ConvShape { padding: [0, 2], ..ConvShape::new(5, [4, 8], [1, 50], [1, 5]) },
        ] {
            let case = Case::new(shape).expect("valid");
            paths().for_each(|path| case.check(path));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn any_geometry_is_right(
            batch in 1_usize..4,
            inputs in 1_usize..6,
            outputs in 1_usize..6,
            groups in prop::sample::select(vec![1_usize, 1, 1, 2, 3, 11]),
            input in [1_usize..14, 1_usize..38],
            kernel in [1_usize..5, 1_usize..5],
            stride in [1_usize..4, 1_usize..6],
            padding in [0_usize..4, 0_usize..5],
            dilation in [1_usize..3, 1_usize..4],
        ) {
            let channels = [inputs * groups, outputs * groups];
            let shape =
                ConvShape { batch, channels, groups, input, kernel, stride, padding, dilation };
            if let Some(case) = Case::new(shape) {
                paths().for_each(|path| case.check(path));
            }
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        for stride in [1, 2] {
            let shape = ConvShape {
                padding: [1, 1],
                stride: [1, stride],
                ..ConvShape::new(37, [5, 18], [9, 16], [3, 3])
            };
            let case = Case::new(shape).expect("valid");
            for path in paths() {
                let alone = case.run(path, 1);
                for threads in [2, 3, 8] {
                    assert_eq!(alone, case.run(path, threads), "{path} with {threads} threads");
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_reaches_all_that_it_meets_and_nothing_else() {
        let shape = ConvShape { padding: [1, 1], ..ConvShape::new(2, [3, 17], [6, 20], [3, 3]) };
        for poison in [f32::NAN, f32::INFINITY] {
            let mut case = Case::new(shape).expect("valid");
            case.x[2 * 120 + 3 * 20 + 7] = poison;
            case.dy[5 * 120 + 2 * 20 + 19] = poison;
            for path in paths() {
                let [y, dx, dw] = case.run(path, 1);
                let [x, w, dy, bias] =
                    [&case.x, &case.w, &case.dy, &case.bias].map(|values| wide(values));
                let finite = |values: &[f64]| -> Vec<bool> {
                    values.iter().map(|value| value.is_finite()).collect()
                };
                let geometry = &case.geometry;
                let right = reference::forward(geometry, &x, &w, Some(&bias));
                assert_eq!(finite(&wide(&y)), finite(&right), "{path} y");
                let right = reference::input_gradient(geometry, &dy, &w);
                assert_eq!(finite(&wide(&dx)), finite(&right), "{path} dx");
                // A zero of the padding meets the poisoned gradient in the fast sums.
                let right = reference::weight_gradient(geometry, &x, &dy);
                for (given, right) in dw.iter().zip(&right) {
                    assert!(right.is_finite() || !given.is_finite(), "{path} dw");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "numbers of the input")]
    fn a_slice_of_another_length_is_refused() {
        let case = Case::new(ConvShape::new(1, [1, 1], [4, 4], [3, 3])).expect("valid");
        let mut y = vec![0.0; 4];
        let x = &case.x[1..];
        let geometry = &case.geometry;
        forward(Path::Portable, geometry, x, &case.w, None, &mut y, &mut Scratch::new(), 1);
    }
}
