//! Depthwise convolutions of 3 × 3 with stride 1: plane
//! by plane.

use updraft_simd::{Isa, Pieces, over, threads};

use super::pixel_tile::{PlaneJob, WINDOW};
use crate::kernels::elementwise::{Activation, function};
use crate::kernels::geometry::ConvGeometry;
use crate::kernels::packing::{padded_image, padded_len};
use crate::kernels::plan::{Padded, Phases, Windows};
use crate::kernels::scratch::Scratch;

/// Sums over windows of single planes.
#[derive(Debug, Clone)]
pub(crate) struct Planes {
    isa: Isa,
    channels: usize,
    /// Height and width of the image that is read, and how it is padded.
    image: [usize; 2],
    padded: Padded,
    /// Rows and columns of results.
    size: [usize; 2],
    /// The weight of a kernel that each position of the window is multiplied by.
    weights: [usize; WINDOW * WINDOW],
}

impl Planes {
    /// The forward pass.
    pub(crate) fn forward(isa: Isa, geometry: &ConvGeometry) -> Self {
        let shape = geometry.shape();
        Self {
            isa,
            channels: shape.groups,
            image: shape.input,
            padded: Windows::of(geometry).padded,
            size: geometry.output(),
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
        let mut weights = [0; WINDOW * WINDOW];
        for (place, weight) in weights.iter_mut().enumerate() {
            *weight = met(0, place / WINDOW) * WINDOW + met(1, place % WINDOW);
        }
        Self {
            isa,
            channels: shape.groups,
            image: geometry.output(),
            padded,
            size: shape.input,
            weights,
        }
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
        let Self { isa, channels, image, padded, size, .. } = *self;
        let vectors = isa.vectors();
        let image_len = padded_len(padded, image, 1);
        let (_, mut of_threads) = scratch.split(0, threads(asked_threads), image_len);
        let (kernels, _) = w.as_chunks::<{ WINDOW * WINDOW }>();
        let kernels: Vec<_> = kernels.iter().map(|w| self.weights.map(|at| w[at])).collect();
        of_threads.iter_mut().for_each(|own| own[..image_len].fill(0.0));
        let plane = image[0] * image[1];
        over(y, &mut of_threads, |index, y, own| {
            let sample = &images[index * channels * plane..][..channels * plane];
            let planes = sample.chunks_exact(plane).zip(y.chunks_exact_mut(size[0] * size[1]));
            for (channel, (weights, (x, y))) in kernels.iter().zip(planes).enumerate() {
                let image = padded_image(isa, x, image, padded, &mut own[..image_len]);
                let (pitch, start) = (padded.size[1], bias.map_or(0.0, |bias| bias[channel]));
                PlaneJob { image, pitch, weights, start, size }.run(isa, y);
            }
            if activation != Activation::Identity {
                function::values_in_place(vectors, activation, y);
            }
        });
    }
}
