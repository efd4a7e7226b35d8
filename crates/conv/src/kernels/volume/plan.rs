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
        if plan.size == plan.image {
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
            let slices = &image[from * height * width..][..own * height * width];
            let inside = to[above * self.slice..].chunks_exact_mut(self.slice);
            for (from, to) in slices.chunks_exact(height * width).zip(inside) {
                let rows = to[plan.before[1] * plan.size[2]..].chunks_mut(plan.size[2]);
                for (from, to) in from.chunks_exact(width).zip(rows) {
                    to[plan.before[2]..][..width].copy_from_slice(from);
                }
            }
            to[..above * self.slice].fill(0.0);
            to[(above + own) * self.slice..].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::reference;

    /// Whole numbers, whose sums are exact in f32.
    fn numbers(count: usize) -> Vec<f32> {
        (0..count).map(|at| (at * 7 % 11) as f32 - 5.0).collect()
    }

    fn wide(numbers: &[f32]) -> Vec<f64> {
        numbers.iter().map(|&number| number.into()).collect()
    }

    fn geometry(shape: Conv3dShape) -> Conv3dGeometry {
        Conv3dGeometry::try_new(shape).expect("valid")
    }

    /// The results of a sample, of at most so many windows along the depth together.
    fn results(plan: &Plan, read: &[f32], w: &[f32], most: usize) -> Vec<f64> {
        let [inputs, outputs] = plan.channels;
        let [read_len, results_len] = plan.sample_lens();
        assert_eq!(read.len(), read_len);
        let slab = Slab::of(plan, most);
        let mut results = vec![f64::NAN; results_len];
        let of_group = w.len() / plan.groups;
        for group in 0..plan.groups {
            let image = &read[group * read_len / plan.groups..][..read_len / plan.groups];
            let w = &w[group * of_group..][..of_group];
            let mut own = vec![0.0; slab.len(plan)];
            // In any order: here from the last, so that slices are filled again with zeros.
            for first in (0..plan.phases[0][0].count).step_by(slab.together).rev() {
                let read = slab.filled(plan, image, first * plan.window_step[0], &mut own);
                for at in every(plan.phases.each_ref().map(Vec::len)) {
                    let phase: [&Phase; 3] = [0, 1, 2].map(|axis| &plan.phases[axis][at[axis]]);
                    let taps = slab.taps(plan, phase);
                    let counts = phase.map(|phase| phase.count);
                    let depths = (first + slab.together).min(counts[0]).saturating_sub(first);
                    for window in every([depths, counts[1], counts[2]]) {
                        let [z, y, x] = [0, 1, 2].map(|axis| window[axis] * plan.window_step[axis]);
                        let read = &read[z * slab.slice + y * plan.size[2] + x..];
                        let [z, y, x] = [0, 1, 2].map(|axis| {
                            let window = window[axis] + if axis == 0 { first } else { 0 };
                            at[axis] + window * plan.result_step[axis]
                        });
                        for output in 0..outputs {
                            let mut sum = 0.0;
                            let mut taps = taps.iter();
                            for input in 0..inputs {
                                for tap in every(phase.map(|phase| phase.taps.len())) {
                                    let [k, l, m] =
                                        [0, 1, 2].map(|axis| phase[axis].taps[tap[axis]].0);
                                    let weight = input * plan.weight_step[0]
                                        + output * plan.weight_step[1]
                                        + (k * plan.kernel[1] + l) * plan.kernel[2]
                                        + m;
                                    let from = *taps.next().expect("one for each weight");
                                    sum += f64::from(read[from as usize] * w[weight]);
                                }
                            }
                            let [_, height, width] = plan.results;
                            let plane = (group * outputs + output) * plan.results[0] + z;
                            results[(plane * height + y) * width + x] = sum;
                        }
                    }
                }
            }
        }
        results
    }

    /// Every position of a grid.
    fn every([depth, height, width]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
        (0..depth * height * width)
            .map(move |at| [at / width / height, at / width % height, at % width])
    }

    #[test]
    fn plans_sum_the_products_of_the_definition() {
        let shape = Conv3dShape { groups: 2, ..Conv3dShape::new(1, [4, 6], [6, 5, 7], [3, 2, 3]) };
        for shape in [
            shape,
            Conv3dShape { padding: [2, 1, 3], ..shape },
            Conv3dShape { stride: [2, 3, 2], padding: [1, 0, 2], ..shape },
            Conv3dShape { dilation: [2, 3, 1], padding: [0, 2, 1], stride: [1, 2, 3], ..shape },
            Conv3dShape { stride: [2; 3], ..Conv3dShape::new(1, [2, 3], [5; 3], [2; 3]) },
            Conv3dShape::new(1, [2, 3], [4, 5, 6], [1; 3]),
        ] {
            let geometry = geometry(shape);
            let x = numbers(geometry.input_len());
            let w = numbers(geometry.weight_len());
            let dy = numbers(geometry.output_len());
            let y = reference::forward_3d(&geometry, &wide(&x), &wide(&w), None);
            let dx = reference::input_gradient_3d(&geometry, &wide(&dy), &wide(&w));
            for most in [0, 1, 2, 9] {
                assert_eq!(results(&Plan::forward(&geometry), &x, &w, most), y, "{shape:?}");
                let plan = Plan::input_gradient(&geometry);
                assert_eq!(results(&plan, &dy, &w, most), dx, "gradient of {shape:?}");
            }
        }
    }

    #[test]
    fn a_slab_has_as_many_windows_as_the_cache_has_room_for() {
        // A padded slice has 64 × 64 numbers; 16 slices of 4 channels are 1 MiB.
        let shape = |inputs, stride, dilation| Conv3dShape {
            padding: [1; 3],
            stride: [stride, 1, 1],
            dilation: [dilation, 1, 1],
            ..Conv3dShape::new(1, [inputs, 1], [40, 62, 62], [3; 3])
        };
        for (what, shape, most, depth, together) in [
            ("slices for 14 windows of 3", shape(4, 1, 1), 40, 16, 14),
            ("windows of 5", shape(4, 1, 2), 40, 16, 12),
            ("every second window", shape(4, 2, 1), 40, 15, 7),
            ("no more than there are", shape(4, 1, 1), 9, 11, 9),
            ("at least one", shape(64, 1, 1), 40, 3, 1),
            ("one of none", shape(4, 1, 1), 0, 3, 1),
        ] {
            let plan = Plan::forward(&geometry(shape));
            assert_eq!(plan.slice(), 62 * 62, "{what}");
            let slab = Slab::of(&plan, most);
            assert_eq!((slab.depth, slab.slice, slab.together), (depth, 4096, together), "{what}");
            assert_eq!(slab.len(&plan), shape.channels[0] * depth * 4096, "{what}");
        }
        let bare = Conv3dShape { padding: [0; 3], ..shape(4, 1, 1) };
        let plan = Plan::forward(&geometry(bare));
        for (most, together) in [(38, 38), (0, 1)] {
            let slab = Slab::of(&plan, most);
            assert_eq!((slab.depth, slab.together, slab.len(&plan)), (40, together, 0));
        }
    }
}
