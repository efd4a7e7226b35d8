//! Depthwise convolutions of 3 × 3 with stride 1: plane by plane.
//!
//! Planes are read where they are, without a copy that has zeros around it.

use updraft_simd::{Cut, Isa, Pieces, over, threads};

use super::frame::{AROUND, Frame, WINDOW, surrounded};
use super::pixel_tile::PlaneJob;
use super::pixel_weight_tile::{PARTS, PlaneWeightJob, TAPS};
use crate::kernels::elementwise::{Activation, function};
use crate::kernels::geometry::ConvGeometry;
use crate::kernels::plan::Phases;
use crate::kernels::scratch::Scratch;

/// Sums over windows of single planes.
#[derive(Debug, Clone)]
pub(crate) struct Planes {
    isa: Isa,
    channels: usize,
    frame: Frame,
    /// The weight of a kernel that each position of the window is multiplied by.
    weights: [usize; TAPS],
}

impl Planes {
    /// The forward pass.
    pub(crate) fn forward(isa: Isa, geometry: &ConvGeometry) -> Self {
        let shape = geometry.shape();
        Self {
            isa,
            channels: shape.groups,
            frame: Frame::new(shape.input, shape.padding, geometry.output()),
            weights: std::array::from_fn(|place| place),
        }
    }

    /// The input's gradient.
    pub(crate) fn input_gradient(isa: Isa, geometry: &ConvGeometry) -> Self {
        let shape = geometry.shape();
        let Phases { padded, all } = Phases::of(geometry);
        let [phase] = &all[..] else { unreachable!("a stride of 1 has one phase") };
        // The weight index of each row and column of the window.
        let met = |axis: usize, place: usize| {
            let met = phase.taps[axis].iter().find(|tap| tap.1 == place);
            met.expect("a padding of at most 2 leaves taps at the start").0
        };
        let mut weights = [0; TAPS];
        for (place, weight) in weights.iter_mut().enumerate() {
            *weight = met(0, place / WINDOW) * WINDOW + met(1, place % WINDOW);
        }
        let frame = Frame::new(geometry.output(), padded.before, shape.input);
        Self { isa, channels: shape.groups, frame, weights }
    }

    /// Computes all planes of a batch, then activates them.
    #[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
    pub(crate) fn run<'a>(
        &self,
        images: &[f32],
        w: &[f32],
        bias: Option<&[f32]>,
        activation: Activation,
        y: impl Pieces<Piece = &'a mut [f32]>,
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let Self { isa, channels, ref frame, .. } = *self;
        let vectors = isa.vectors();
        let plane = frame.plane_len();
        let [rows, columns] = frame.windows();
        let (results, written) = (rows * columns, PlaneJob::written(isa.lanes(), frame.windows()));
        let own_len = plane + 2 * AROUND + written;
        let (_, mut of_threads) = scratch.split(0, threads(asked_threads), own_len);
        let (kernels, _) = w.as_chunks::<TAPS>();
        let kernels: Vec<_> = kernels.iter().map(|w| self.weights.map(|at| w[at])).collect();
        over(y, &mut of_threads, |index, y, own| {
            let (own_plane, own_results) = own.split_at_mut(plane + 2 * AROUND);
            for (channel, weights) in kernels.iter().enumerate() {
                let first = (index * channels + channel) * plane;
                let plane = surrounded(images, [first, plane], own_plane);
                let start = bias.map_or(0.0, |bias| bias[channel]);
                let job = PlaneJob { frame, plane, weights, start };
                let y = &mut y[channel * results..];
                if written <= y.len() {
                    job.run(vectors, y);
                } else {
                    job.run(vectors, own_results);
                    y[..results].copy_from_slice(&own_results[..results]);
                }
            }
            if activation != Activation::Identity {
                function::values_in_place(vectors, activation, y);
            }
        });
    }

    /// The gradient of all weights: `chunk` samples are summed one after the other.
    pub(crate) fn weight_gradient(
        &self,
        x: &[f32],
        dy: &[f32],
        dw: &mut [f32],
        [batch, chunk]: [usize; 2],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let Self { isa, channels, ref frame, .. } = *self;
        let [rows, columns] = frame.windows();
        let (plane, results) = (frame.plane_len(), rows * columns);
        let all_sums = channels * TAPS;
        let own_len = plane + results + 4 * AROUND;
        let vectors = isa.vectors();
        let (sums, mut of_threads) =
            scratch.split(batch.div_ceil(chunk) * all_sums, threads(asked_threads), own_len);
        over(Cut::new(sums, all_sums), &mut of_threads, |index, sums, own| {
            let (own_plane, own_gradient) = own.split_at_mut(plane + 2 * AROUND);
            let mut parts = [0.0; PARTS];
            sums.fill(0.0);
            for sample in index * chunk..((index + 1) * chunk).min(batch) {
                for (channel, sums) in sums.as_chunks_mut::<TAPS>().0.iter_mut().enumerate() {
                    let at = sample * channels + channel;
                    let plane = surrounded(x, [at * plane, plane], own_plane);
                    let gradient = surrounded(dy, [at * results, results], own_gradient);
                    PlaneWeightJob { frame, plane, gradient }.run(vectors, sums, &mut parts);
                }
            }
        });
        let (total, others) = sums.split_at_mut(all_sums);
        for other in others.chunks_exact(all_sums) {
            total.iter_mut().zip(other).for_each(|(total, other)| *total += other);
        }
        dw.copy_from_slice(total);
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::scattered;

    use super::*;
    use crate::kernels::{Algorithm, ConvShape, forward, input_gradient, weight_gradient};

    /// Output, input gradient and weight gradient.
    fn passes(isa: Isa, geometry: &ConvGeometry, [x, w, dy]: [&[f32]; 3]) -> [Vec<f32>; 3] {
        let s = &mut Scratch::new();
        let [mut y, mut dx, mut dw] = [dy, x, w].map(|of| vec![f32::NAN; of.len()]);
        forward(isa, geometry, x, w, None, &mut y, s, 1);
        input_gradient(isa, geometry, dy, w, &mut dx, s, 1);
        weight_gradient(isa, geometry, x, dy, &mut dw, s, 1);
        [y, dx, dw]
    }

    #[test]
    fn a_plane_takes_nothing_from_those_beside_it() {
        for (width, padding) in [(1, 1), (6, 1), (7, 2), (16, 1), (17, 2), (21, 0), (33, 1)] {
            let shape = ConvShape {
                groups: 3,
                padding: [padding; 2],
                ..ConvShape::new(1, [3; 2], [5, width], [3; 2])
            };
            let geometry = ConvGeometry::try_new(shape).expect("valid");
            let geometry = geometry.with_algorithm(Algorithm::DepthwiseByPixel).expect("fits");
            let x = scattered(1, geometry.input_len());
            let w = scattered(2, geometry.weight_len());
            let dy = scattered(3, geometry.output_len());
            let poisoned = |values: &[f32]| {
                let mut values = values.to_vec();
                let plane = values.len() / 3;
                values[..plane].fill(f32::NAN);
                values[2 * plane..].fill(f32::NAN);
                values
            };
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let right = passes(isa, &geometry, [&x, &w, &dy]);
                let given = passes(isa, &geometry, [&poisoned(&x), &w, &poisoned(&dy)]);
                for (given, right) in given.iter().zip(&right) {
                    let middle = given.len() / 3..given.len() / 3 * 2;
                    assert_eq!(given[middle.clone()], right[middle], "{isa} {width} {padding}");
                }
            }
        }
    }
}
