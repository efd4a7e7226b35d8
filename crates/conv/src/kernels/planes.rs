//! Convolutions of three by three whose channels meet only themselves, moved by one pixel: plane
//! by plane.

use updraft_simd::{Isa, Pieces, over, threads};

use super::activation::Activation;
use super::cpu::{PlaneJob, WINDOW, function};
use super::geometry::{Algorithm, ConvGeometry};
use super::packing::{padded_image, padded_len};
use super::plan::{Padded, Phases, Windows};
use super::scratch::Scratch;

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
    /// Which weight of a kernel meets each place of the window.
    weights: [usize; WINDOW * WINDOW],
}

/// The path with the longest vectors that rows of results fill by four fifths, if this is such a
/// convolution: with less, sums over channels take less time.
fn path_for(isa: Isa, geometry: &ConvGeometry, columns: usize) -> Option<Isa> {
    let shape = geometry.shape();
    let is_alone = shape.channels == [shape.groups; 2];
    let is_dense = shape.stride == [1, 1] && shape.dilation == [1, 1];
    let is_direct = geometry.algorithm() == Algorithm::Direct;
    if !is_alone || !is_dense || !is_direct || shape.kernel != [WINDOW; 2] {
        return None;
    }
    let shorter = if isa.base() == Isa::Avx512 { Isa::Avx2 } else { isa };
    let is_filled = |lanes: usize| 5 * columns >= 4 * columns.next_multiple_of(lanes);
    let fits =
        |isa: &Isa| isa.is_available() && PlaneJob::fits(*isa, columns) && is_filled(isa.lanes());
    [isa, shorter].into_iter().find(fits)
}

impl Planes {
    /// The forward pass; `None` if it has another form.
    pub(crate) fn forward(isa: Isa, geometry: &ConvGeometry) -> Option<Self> {
        let (shape, size) = (geometry.shape(), geometry.output());
        let isa = path_for(isa, geometry, size[1])?;
        Some(Self {
            isa,
            channels: shape.groups,
            image: shape.input,
            padded: Windows::of(geometry).padded,
            size,
            weights: std::array::from_fn(|place| place),
        })
    }

    /// The input's gradient; `None` if it has another form.
    pub(crate) fn input_gradient(isa: Isa, geometry: &ConvGeometry) -> Option<Self> {
        let shape = geometry.shape();
        let isa = path_for(isa, geometry, shape.input[1])?;
        let Phases { padded, all } = Phases::of(geometry);
        let [phase] = &all[..] else { return None };
        // What each row and column of the window meets.
        let met = |axis: usize, place: usize| {
            let met = phase.taps[axis].iter().find(|tap| tap.1 == place);
            met.map(|tap| tap.0)
        };
        let mut weights = [0; WINDOW * WINDOW];
        for (place, weight) in weights.iter_mut().enumerate() {
            *weight = met(0, place / WINDOW)? * WINDOW + met(1, place % WINDOW)?;
        }
        Some(Self {
            isa,
            channels: shape.groups,
            image: geometry.output(),
            padded,
            size: shape.input,
            weights,
        })
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
