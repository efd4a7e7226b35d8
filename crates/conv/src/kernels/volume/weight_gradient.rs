//! The gradient of the weights of a convolution of volumes.

use updraft_simd::pixels::transpose;
use updraft_simd::{Cut, Isa, over, threads};

use super::plan::{Plan, Slab};
use crate::kernels::direct::WeightJob;
use crate::kernels::geometry::Conv3dGeometry;
use crate::kernels::scratch::{CACHE_LINE, Scratch};
use crate::kernels::strategy::{Algorithm, Pass, Strategy, strategy};
use crate::kernels::winograd::VolumeWinograd;

/// Parts of a batch whose weight gradients are summed one after the other: fixed by the shape alone,
/// so that the sums do not depend on the number of threads.
const CHUNKS: usize = 16;

/// The most numbers that the chunks' partial sums may hold, 64 MiB.
const MOST_PARTIAL: usize = 16 << 20;

/// The weights' gradient, `dw = ∂(Σ y·dy)/∂w`; zeros for an empty batch.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
pub fn weight_gradient_3d(
    isa: Isa,
    geometry: &Conv3dGeometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    assert_eq!(dy.len(), geometry.output_len(), "numbers of the output");
    assert_eq!(dw.len(), geometry.weight_len(), "numbers of the weights");
    let batch = geometry.shape().batch;
    if batch == 0 {
        dw.fill(0.0);
        return;
    }
    let Strategy { algorithm, isa, .. } = strategy(isa, geometry, Pass::WeightGradient);
    let plan = &Plan::forward(geometry);
    let depth = plan.results[0];
    // Items are parts of samples along the depth, chunks are some items.
    let parts = (CHUNKS / batch).clamp(1, depth.div_ceil(4));
    let slices = depth.div_ceil(parts);
    let parts = depth.div_ceil(slices);
    let items = batch * parts;
    let direct = DirectWeights::new(isa, plan, slices);
    let sums_len = direct.taps.len() * direct.pitch;
    let all_sums = plan.groups * sums_len;
    let chunk = items.div_ceil(CHUNKS.min(MOST_PARTIAL / all_sums).max(2));
    let chunks = items.div_ceil(chunk);
    let winograd = (algorithm == Algorithm::Winograd)
        .then(|| VolumeWinograd::of(isa, plan).with_at_most(slices));
    let [points_len, own_len] = winograd.as_ref().map_or([0; 2], VolumeWinograd::gradient_lens);
    let threads = threads(asked_threads).min(chunks);
    let own_len = (plan.groups * points_len + own_len).max(direct.own_len());
    let (sums, mut of_threads) = scratch.split(chunks * all_sums, threads, own_len);
    let [x_len, dy_len] = plan.sample_lens();
    over(Cut::new(sums, all_sums), &mut of_threads, |index, sums, own| {
        let items = index * chunk..((index + 1) * chunk).min(items);
        // A group's part of a sample, and its slices of results.
        let part = |item: usize, group: usize| {
            let (sample, first) = (item / parts, item % parts * slices);
            let of = |len: usize| {
                let start = sample * len + group * len / plan.groups;
                start..start + len / plan.groups
            };
            let range = first..(first + slices).min(depth);
            (&x[of(x_len)], &dy[of(dy_len)], range)
        };
        if let Some(winograd) = &winograd {
            let (points, own) = own.split_at_mut(plan.groups * points_len);
            points.fill(0.0);
            for item in items.clone() {
                for (group, points) in points.chunks_exact_mut(points_len).enumerate() {
                    let (x, dy, slices) = part(item, group);
                    winograd.add_gradient(x, dy, slices, own, points);
                }
            }
            let mut groups = points.chunks_exact(points_len).zip(sums.chunks_exact_mut(sums_len));
            if groups.all(|(points, sums)| winograd.weight_gradients(points, sums)) {
                return;
            }
        }
        sums.fill(0.0);
        for item in items {
            for (group, sums) in sums.chunks_exact_mut(sums_len).enumerate() {
                let (x, dy, slices) = part(item, group);
                direct.add(x, dy, slices, own, sums);
            }
        }
    });
    let (total, others) = sums.split_at_mut(all_sums);
    for other in others.chunks_exact(all_sums) {
        for (total, other) in total.iter_mut().zip(other) {
            *total += other;
        }
    }
    let (taps, outputs) = (direct.taps.len(), plan.channels[1]);
    for (sums, dw) in total.chunks_exact(sums_len).zip(dw.chunks_exact_mut(taps * outputs)) {
        transpose(isa, sums, [taps, outputs], direct.pitch, dw, taps);
    }
}

/// Every product of the definition.
struct DirectWeights<'a> {
    isa: Isa,
    plan: &'a Plan,
    slab: Slab,
    taps: Vec<u32>,
    /// Adjacent taps, and the offset of the first.
    run_len: usize,
    runs: Vec<u32>,
    /// Output channels in whole vectors.
    pitch: usize,
}

impl<'a> DirectWeights<'a> {
    fn new(isa: Isa, plan: &'a Plan, slices: usize) -> Self {
        let slab = Slab::of(plan, slices);
        let phases = [0, 1, 2].map(|axis: usize| &plan.phases[axis][0]);
        let taps = slab.taps(plan, phases);
        let are_neighbours = matches!(phases[2].taps[..], [(_, 0), (_, 1), (_, 2)]);
        let run_len = if are_neighbours { 3 } else { 1 };
        let runs = taps.iter().copied().step_by(run_len).collect();
        let pitch = plan.channels[1].next_multiple_of(isa.lanes());
        Self { isa, plan, slab, taps, run_len, runs, pitch }
    }

    fn slab_len(&self) -> usize {
        self.slab.len(self.plan).next_multiple_of(CACHE_LINE)
    }

    /// The size of a thread's work space: a slab, and a slice of the output's gradient by pixel.
    fn own_len(&self) -> usize {
        self.slab_len() + self.plan.slice() * self.pitch
    }

    /// Adds the products of some slices of a group to `[taps][channels]`.
    fn add(
        &self,
        x: &[f32],
        dy: &[f32],
        slices: std::ops::Range<usize>,
        own: &mut [f32],
        sums: &mut [f32],
    ) {
        let Self { isa, plan, slab, pitch, .. } = *self;
        let (own_slab, by_pixel) = own.split_at_mut(self.slab_len());
        let own_slab = &mut own_slab[..slab.len(plan)];
        own_slab.fill(0.0);
        let [depth, rows, columns] = plan.results;
        for window in slices.clone().step_by(slab.together) {
            let read = slab.filled(plan, x, window * plan.window_step[0], own_slab);
            for slice in window..(window + slab.together).min(slices.end) {
                let dy = &dy[slice * plan.slice()..];
                let channels = [plan.channels[1], plan.slice()];
                transpose(isa, dy, channels, depth * plan.slice(), by_pixel, pitch);
                let job = WeightJob {
                    image: read,
                    origin: (slice - window) * plan.window_step[0] * slab.slice,
                    runs: &self.runs,
                    run_len: self.run_len,
                    gradient: by_pixel,
                    blocks: pitch / isa.lanes(),
                    rows,
                    columns,
                    row_step: plan.window_step[1] * plan.size[2],
                    column_step: plan.window_step[2],
                };
                job.run(isa, sums);
            }
        }
    }
}
