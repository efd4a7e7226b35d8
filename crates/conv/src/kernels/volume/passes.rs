//! A convolution of volumes, and its input's gradient.

use updraft_simd::{Isa, over, threads};

use super::plan::{Phase, Plan, Slab};
use crate::kernels::direct::{LineJob, TileJob};
use crate::kernels::elementwise::{Activation, function};
use crate::kernels::geometry::Conv3dGeometry;
use crate::kernels::image::transpose_to_planes;
use crate::kernels::packing::pack;
use crate::kernels::scratch::{CACHE_LINE, Scratch};
use crate::kernels::strategy::{Algorithm, Pass, Strategy, direct, strategy};
use crate::kernels::winograd::VolumeWinograd;

/// Convolves volumes: `y[n,o] = bias[o] + Σ_i x[n,i] ∗ w[o,i]`, then activates.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn forward_3d(
    isa: Isa,
    geometry: &Conv3dGeometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    activation: Activation,
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    assert_eq!(w.len(), geometry.weight_len(), "numbers of the weights");
    assert_eq!(y.len(), geometry.output_len(), "numbers of the output");
    let plan = Plan::forward(geometry);
    let sums = Sums::new(isa, geometry, Pass::Forward, plan, w, bias);
    Sums { activation, ..sums }.run(x, y, scratch, threads);
}

/// The input's gradient, `dx = ∂(Σ y·dy)/∂x`; with a bias for each input channel added it is a
/// transposed convolution of `dy`.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn input_gradient_3d(
    isa: Isa,
    geometry: &Conv3dGeometry,
    dy: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    dx: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    assert_eq!(dy.len(), geometry.output_len(), "numbers of the output");
    assert_eq!(w.len(), geometry.weight_len(), "numbers of the weights");
    assert_eq!(dx.len(), geometry.input_len(), "numbers of the input");
    let plan = Plan::input_gradient(geometry);
    let sums = Sums::new(isa, geometry, Pass::InputGradient, plan, w, bias);
    sums.run(dy, dx, scratch, threads);
}

/// Sums over windows of every sample.
struct Sums<'a> {
    isa: Isa,
    has_winograd: bool,
    /// Whether lanes are pixels; with Winograd's algorithm, of the slices that are computed directly.
    is_by_pixel: bool,
    plan: Plan,
    w: &'a [f32],
    bias: Option<&'a [f32]>,
    activation: Activation,
}

/// Some slices of a sample's results.
struct Piece<'a> {
    sample: usize,
    /// The first slice.
    first: usize,
    /// The slices of each channel.
    channels: Vec<&'a mut [f32]>,
}

impl<'a> Sums<'a> {
    fn new(
        isa: Isa,
        geometry: &Conv3dGeometry,
        pass: Pass,
        plan: Plan,
        w: &'a [f32],
        bias: Option<&'a [f32]>,
    ) -> Self {
        let Strategy { algorithm, isa, .. } = strategy(isa, geometry, pass);
        let has_winograd = algorithm == Algorithm::Winograd;
        let directly = if has_winograd { direct(isa, geometry, pass).0 } else { algorithm };
        let is_by_pixel = directly == Algorithm::DirectByPixel;
        if let Some(bias) = bias {
            assert_eq!(bias.len(), plan.groups * plan.channels[1], "one bias for each channel");
        }
        Self { isa, has_winograd, is_by_pixel, plan, w, bias, activation: Activation::Identity }
    }

    /// Results divided by samples and depth, so that every thread has work; the division changes
    /// no result.
    fn pieces<'b>(&self, results: &'b mut [f32], threads: usize) -> Vec<Piece<'b>> {
        let [depth, height, width] = self.plan.results;
        let [_, sample_len] = self.plan.sample_lens();
        let samples = results.len() / sample_len;
        let step = self.plan.result_step[0];
        // Whole windows of all phases; a division costs the slices that both sides read.
        let parts = match samples.is_multiple_of(threads) {
            true => 1,
            false => (4 * threads).div_ceil(samples),
        };
        let slices = depth.div_ceil(parts.min(depth)).next_multiple_of(step);
        let mut pieces = Vec::new();
        for (sample, results) in results.chunks_exact_mut(sample_len).enumerate() {
            let mut cuts: Vec<_> = results
                .chunks_exact_mut(depth * height * width)
                .map(|channel| channel.chunks_mut(slices * height * width))
                .collect();
            for first in (0..depth).step_by(slices) {
                let channels = cuts.iter_mut().filter_map(Iterator::next).collect();
                pieces.push(Piece { sample, first, channels });
            }
        }
        pieces
    }

    fn run(&self, read: &[f32], results: &mut [f32], scratch: &mut Scratch, asked_threads: usize) {
        let Self { isa, ref plan, .. } = *self;
        if results.is_empty() {
            return;
        }
        let threads = threads(asked_threads);
        let direct = Direct::new(self);
        let winograd = self.has_winograd.then(|| VolumeWinograd::of(isa, plan));
        let [point_len, own_len] = winograd.as_ref().map_or([0; 2], VolumeWinograd::lens);
        let blocks_len = plan.channels[1].next_multiple_of(isa.lanes());
        let pieces = self.pieces(results, threads);
        let (shared, mut of_threads) = scratch.split(
            plan.groups * (direct.weight_len + blocks_len + point_len),
            threads,
            own_len.max(direct.own_len()),
        );
        let (packed, starts) = shared.split_at_mut(plan.groups * direct.weight_len);
        let (starts, points) = starts.split_at_mut(plan.groups * blocks_len);
        let group_len = self.w.len() / plan.groups;
        for group in 0..plan.groups {
            let packed = &mut packed[group * direct.weight_len..][..direct.weight_len];
            direct.pack(&self.w[group * group_len..][..group_len], packed);
            for (lane, start) in starts[group * blocks_len..][..blocks_len].iter_mut().enumerate() {
                let channel = group * plan.channels[1] + lane;
                let bias = self.bias.filter(|_| lane < plan.channels[1]);
                *start = bias.map_or(0.0, |bias| bias[channel]);
            }
            if let Some(winograd) = &winograd {
                winograd.weights(packed, &mut points[group * point_len..][..point_len]);
            }
        }
        let (packed, starts, points) = (&*packed, &*starts, &*points);
        let [read_len, _] = plan.sample_lens();
        over(pieces, &mut of_threads, |_, mut piece: Piece<'_>, own| {
            let sample = &read[piece.sample * read_len..][..read_len];
            let [_, outputs] = plan.channels;
            let volume = read_len / plan.groups;
            for group in 0..plan.groups {
                let image = &sample[group * volume..][..volume];
                let packed = &packed[group * direct.weight_len..][..direct.weight_len];
                let start = &starts[group * blocks_len..][..blocks_len];
                let channels = &mut piece.channels[group * outputs..][..outputs];
                let slices = channels[0].len() / plan.slice();
                let all = piece.first..piece.first + slices;
                let Some(winograd) = &winograd else {
                    direct.run(image, packed, start, all, piece.first, channels, own);
                    continue;
                };
                let points = &points[group * point_len..][..point_len];
                let not_finite = winograd.run(image, points, start, piece.first, channels, own);
                for slice in all.filter(|slice| not_finite[slice - piece.first]) {
                    let one = slice..slice + 1;
                    direct.run(image, packed, start, one, piece.first, channels, own);
                }
            }
            if self.activation != Activation::Identity {
                for channel in &mut piece.channels {
                    function::values_in_place(isa.vectors(), self.activation, channel);
                }
            }
        });
    }
}

/// Every product of the definition.
struct Direct<'a> {
    isa: Isa,
    plan: &'a Plan,
    slab: Slab,
    is_by_pixel: bool,
    jobs: Vec<Job>,
    /// Numbers of a group's packed weights.
    weight_len: usize,
}

/// The sums of one phase on each axis.
struct Job {
    /// The phase on each axis.
    phase: [usize; 3],
    taps: Vec<u32>,
    /// The offset of its weights.
    weights: usize,
}

impl<'a> Direct<'a> {
    fn new(sums: &'a Sums<'_>) -> Self {
        let Sums { isa, is_by_pixel, ref plan, .. } = *sums;
        let slab = Slab::of(plan, plan.phases[0][0].count);
        let lanes = isa.lanes();
        let blocks = plan.channels[1].div_ceil(lanes);
        let (mut jobs, mut weight_len) = (Vec::new(), 0);
        for (a, depth) in plan.phases[0].iter().enumerate() {
            for (b, height) in plan.phases[1].iter().enumerate() {
                for (c, width) in plan.phases[2].iter().enumerate() {
                    let taps = slab.taps(plan, [depth, height, width]);
                    let weights = weight_len;
                    weight_len += blocks * taps.len() * lanes;
                    jobs.push(Job { phase: [a, b, c], taps, weights });
                }
            }
        }
        Self { isa, plan, slab, is_by_pixel, jobs, weight_len }
    }

    fn blocks(&self) -> usize {
        self.plan.channels[1].div_ceil(self.isa.lanes())
    }

    fn slab_len(&self) -> usize {
        self.slab.len(self.plan).next_multiple_of(CACHE_LINE)
    }

    /// The size of a thread's work space: a slab, and a slice of results by pixel or a panel.
    fn own_len(&self) -> usize {
        let by_pixel = if self.is_by_pixel {
            LineJob::panel_len(self.isa, self.jobs[0].taps.len())
        } else {
            self.plan.slice() * self.blocks() * self.isa.lanes()
        };
        self.slab_len() + by_pixel
    }

    /// Packs a group's weights for all jobs.
    fn pack(&self, w: &[f32], packed: &mut [f32]) {
        let plan = self.plan;
        let [of_read, of_result] = plan.weight_step;
        for Job { phase, taps, weights } in &self.jobs {
            let phases: [&Phase; 3] = [0, 1, 2].map(|axis| &plan.phases[axis][phase[axis]]);
            let [_, rows, columns] = phases.map(|phase| phase.taps.len());
            let window = taps.len() / plan.channels[0];
            let len = self.blocks() * taps.len() * self.isa.lanes();
            let packed = &mut packed[*weights..][..len];
            pack(packed, [taps.len(), self.isa.lanes()], w, [plan.channels[1], of_result], |tap| {
                let (channel, tap) = (tap / window, tap % window);
                let places = [tap / columns / rows, tap / columns % rows, tap % columns];
                let [depth, row, column] = [0, 1, 2].map(|axis| phases[axis].taps[places[axis]].0);
                channel * of_read + (depth * plan.kernel[1] + row) * plan.kernel[2] + column
            });
        }
    }

    /// Computes some slices of a group's results, whose planes begin at the slice `first`.
    #[expect(clippy::too_many_arguments, reason = "all that a piece of the results is")]
    fn run(
        &self,
        image: &[f32],
        packed: &[f32],
        start: &[f32],
        slices: std::ops::Range<usize>,
        first: usize,
        channels: &mut [&mut [f32]],
        own: &mut [f32],
    ) {
        let Self { isa, plan, slab, .. } = *self;
        let (own_slab, by_pixel) = own.split_at_mut(self.slab_len());
        let own_slab = &mut own_slab[..slab.len(plan)];
        own_slab.fill(0.0);
        let step = plan.result_step[0];
        let slice_len = plan.slice();
        let windows = slices.start / step..slices.end.div_ceil(step);
        for window in windows.clone().step_by(slab.together) {
            let last = (window + slab.together).min(windows.end);
            let depth = window * plan.window_step[0];
            let read = slab.filled(plan, image, depth, own_slab);
            let now = (window * step).max(slices.start)..(last * step).min(slices.end);
            for slice in now {
                let at = (slice / step - window) * plan.window_step[0] * slab.slice;
                let of_slice = (slice - first) * slice_len..(slice - first + 1) * slice_len;
                let mut planes: Vec<&mut [f32]> =
                    channels.iter_mut().map(|all| &mut all[of_slice.clone()]).collect();
                for job in self.jobs.iter().filter(|job| job.phase[0] == slice % step) {
                    self.slice(job, &read[at..], packed, start, &mut planes, by_pixel);
                }
                if !self.is_by_pixel {
                    let pitch = self.blocks() * isa.lanes();
                    transpose_to_planes(isa, by_pixel, pitch, 0..slice_len, &mut planes);
                }
            }
        }
    }

    /// One phase of a slice: its planes, or its pixels.
    fn slice(
        &self,
        job: &Job,
        image: &[f32],
        packed: &[f32],
        start: &[f32],
        planes: &mut [&mut [f32]],
        by_pixel: &mut [f32],
    ) {
        let Self { isa, plan, .. } = *self;
        let Job { phase: [_, b, c], ref taps, weights } = *job;
        let [rows, columns] = [plan.phases[1][b].count, plan.phases[2][c].count];
        let row_step = plan.window_step[1] * plan.size[2];
        let weights = &packed[weights..][..self.blocks() * taps.len() * isa.lanes()];
        if self.is_by_pixel {
            // Without padding, each row starts where the one before ends.
            let [rows, columns] =
                if row_step == columns { [1, rows * columns] } else { [rows, columns] };
            let channels = planes.len();
            LineJob { image, taps, weights, start, channels, rows, columns, row_step }
                .run(isa, planes, by_pixel);
            return;
        }
        let pixel = self.blocks() * isa.lanes();
        let has_taps = !taps.is_empty();
        let job = TileJob {
            // The results of a phase without taps are the initial values of its sums.
            image: if has_taps { image } else { &[0.0] },
            origin: 0,
            taps,
            weights,
            start,
            blocks: self.blocks(),
            rows,
            columns,
            row_step: if has_taps { row_step } else { 0 },
            column_step: if has_taps { plan.window_step[2] } else { 0 },
            output_row: plan.result_step[1] * plan.results[2] * pixel,
            output_column: plan.result_step[2] * pixel,
        };
        job.run(isa, &mut by_pixel[(b * plan.results[2] + c) * pixel..]);
    }
}
