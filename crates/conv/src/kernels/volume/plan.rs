//! Windows of a volume, as offsets into the padded volume.

use crate::kernels::geometry::{Conv3dGeometry, Conv3dShape};
use crate::kernels::plan::Axis;

/// Sums over windows of a padded volume, for every group of channels: a forward pass, or an input's
/// gradient.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) groups: usize,
    /// Channels of a group: of the input, and of the results.
    pub(crate) channels: [usize; 2],
    /// Sizes of the volume that is read, and of the results.
    pub(crate) image: [usize; 3],
    pub(crate) results: [usize; 3],
    /// Zeros before the volume, and the size of the padded one.
    pub(crate) before: [usize; 3],
    pub(crate) size: [usize; 3],
    /// From one window of a phase to the next in the padded volume.
    pub(crate) window_step: [usize; 3],
    /// From one result of a phase to the next.
    pub(crate) result_step: [usize; 3],
    /// By depth, height and width: the results of an axis that have the same taps.
    pub(crate) phases: [Vec<Phase>; 3],
    /// Sides of the kernel.
    pub(crate) kernel: [usize; 3],
    /// In the weights of a group: from one read channel to the next, and from one channel of the
    /// results to the next.
    pub(crate) weight_step: [usize; 2],
}

/// Results of one axis, [`result_step`](Plan::result_step) apart, with their taps.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    /// How many results there are; the first lies at the phase's index.
    pub(crate) count: usize,
    /// The index in the kernel, and the offset of the number that it multiplies from the window's
    /// start.
    pub(crate) taps: Vec<(usize, usize)>,
}

impl Plan {
    /// The forward pass.
    pub(crate) fn forward(geometry: &Conv3dGeometry) -> Self {
        let Conv3dShape { channels, groups, input, kernel, stride, padding, dilation, .. } =
            *geometry.shape();
        let channels = channels.map(|channels| channels / groups);
        let taps = kernel.iter().product::<usize>();
        let phases = |axis: usize| {
            let taps = (0..kernel[axis]).map(|tap| (tap, tap * dilation[axis])).collect();
            vec![Phase { count: geometry.output()[axis], taps }]
        };
        Self {
            groups,
            channels,
            image: input,
            results: geometry.output(),
            before: padding,
            size: std::array::from_fn(|axis| input[axis] + 2 * padding[axis]),
            window_step: stride,
            result_step: [1; 3],
            phases: [0, 1, 2].map(phases),
            kernel,
            weight_step: [taps, channels[0] * taps],
        }
    }

    /// The input's gradient: the same over the output's gradient, a phase for each remainder by the
    /// stride.
    pub(crate) fn input_gradient(geometry: &Conv3dGeometry) -> Self {
        let Conv3dShape { channels, groups, input, kernel, stride, .. } = *geometry.shape();
        let [inputs, outputs] = channels.map(|channels| channels / groups);
        let taps = kernel.iter().product::<usize>();
        let axes = [0, 1, 2].map(|axis| Axis::of(geometry, axis));
        Self {
            groups,
            channels: [outputs, inputs],
            image: geometry.output(),
            results: input,
            before: axes.each_ref().map(|axis| axis.before),
            size: axes.each_ref().map(|axis| axis.size),
            window_step: [1; 3],
            result_step: stride,
            phases: axes.map(|axis| {
                axis.phases.into_iter().map(|(count, taps)| Phase { count, taps }).collect()
            }),
            kernel,
            weight_step: [inputs * taps, taps],
        }
    }

    /// Numbers of a sample that are read, and of its results.
    pub(crate) fn sample_lens(&self) -> [usize; 2] {
        let [read, written] = self.channels.map(|channels| channels * self.groups);
        [
            read * self.image.iter().product::<usize>(),
            written * self.results.iter().product::<usize>(),
        ]
    }

    /// Numbers of a slice of results: height times width.
    pub(crate) const fn slice(&self) -> usize {
        self.results[1] * self.results[2]
    }

    /// The furthest tap from a window's start, by depth.
    pub(crate) fn reach(&self) -> usize {
        let taps = self.phases[0].iter().flat_map(|phase| &phase.taps);
        taps.map(|&(_, at)| at).max().unwrap_or(0)
    }
}

/// The padded part of a sample's channels that some slices of results read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slab {
    /// Slices of each channel.
    pub(crate) depth: usize,
    /// Numbers of a padded slice.
    pub(crate) slice: usize,
    /// Neighboring windows along the depth in a phase that are computed together.
    pub(crate) together: usize,
    /// Whether nothing is padded, so that the sample is read without a copy.
    is_bare: bool,
}

impl Slab {
    /// Room for as many windows along the depth, at most `most`, as keep it in the second-level
    /// cache.
    pub(crate) fn of(plan: &Plan, most: usize) -> Self {
        /// 1 MiB of numbers.
        const LARGE: usize = 256 << 10;
        let slice = plan.size[1] * plan.size[2];
        if plan.before == [0; 3] && plan.size == plan.image {
            return Self { depth: plan.image[0], slice, together: most.max(1), is_bare: true };
        }
        let depth = LARGE / (plan.channels[0] * slice);
        let fitting = depth.saturating_sub(plan.reach()) / plan.window_step[0];
        let together = fitting.clamp(1, most.max(1));
        let depth = (together - 1) * plan.window_step[0] + plan.reach() + 1;
        Self { depth, slice, together, is_bare: false }
    }

    /// Its size for a group, in numbers.
    pub(crate) const fn len(&self, plan: &Plan) -> usize {
        if self.is_bare { 0 } else { plan.channels[0] * self.depth * self.slice }
    }

    /// The offsets of the taps from the window's start: channel, depth, height, width.
    pub(crate) fn taps(&self, plan: &Plan, phase: [&Phase; 3]) -> Vec<u32> {
        let mut taps = Vec::new();
        for channel in 0..plan.channels[0] {
            for (_, depth) in &phase[0].taps {
                for (_, row) in &phase[1].taps {
                    for (_, column) in &phase[2].taps {
                        let at = (channel * self.depth + depth) * self.slice;
                        taps.push((at + row * plan.size[2] + column) as u32);
                    }
                }
            }
        }
        taps
    }

    /// A group's channels from a padded slice on: in the input, or copied to `to`, which has
    /// zeros around the slices of the volume.
    pub(crate) fn filled<'a>(
        &self,
        plan: &Plan,
        image: &'a [f32],
        first: usize,
        to: &'a mut [f32],
    ) -> &'a [f32] {
        if self.is_bare {
            return &image[first * self.slice..];
        }
        self.fill(plan, image, first, to);
        to
    }

    fn fill(&self, plan: &Plan, image: &[f32], first: usize, to: &mut [f32]) {
        let [depth, height, width] = plan.image;
        let volume = depth * height * width;
        // Slices before, in and after the volume.
        let above = plan.before[0].saturating_sub(first).min(self.depth);
        let from = (first + above).saturating_sub(plan.before[0]).min(depth);
        let own = (self.depth - above).min(depth - from);
        for (image, to) in
            image.chunks_exact(volume).zip(to.chunks_exact_mut(self.depth * self.slice))
        {
            to[..above * self.slice].fill(0.0);
            to[(above + own) * self.slice..].fill(0.0);
            let slices = &image[from * height * width..][..own * height * width];
            let to = to[above * self.slice..].chunks_exact_mut(self.slice);
            for (from, to) in slices.chunks_exact(height * width).zip(to) {
                let rows = to[plan.before[1] * plan.size[2]..].chunks_mut(plan.size[2]);
                for (from, to) in from.chunks_exact(width).zip(rows) {
                    to[plan.before[2]..][..width].copy_from_slice(from);
                }
            }
        }
    }
}
