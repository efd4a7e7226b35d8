//! How a dense convolution is computed; all ways give the same bits.

use std::sync::OnceLock;

use updraft_conv::slices::ConvGeometry;
use updraft_simd::Isa;

use super::cpu::{
    LARGE_TILE, MOST_INPUTS, Pairs, are_bounded, large_transformed_weights, transformed_weights,
};

/// The channels from which Winograd's algorithm is faster than every product.
const WIDE: usize = 16;

/// The channels from which tiles of 4×4 outputs are faster than every product with instructions for
/// products of bytes, which compute twice as many at a time as those of 16 bits: on a Zen 4 eight
/// layers of 32 channels at 32×32 take 2.9 ms, every product 3.0 ms.
const WIDE_FOR_BYTES: usize = 32;

/// Outputs of a tile of 4×4 that must be new for a gain, of sixteen.
const NEW_OUTPUTS: usize = 11;

/// The most bytes of transformed weights: on a Zen 4, 256 channels (4.5 MiB) gain 1.17 times at 8×8.
/// More do not stay in the third-level cache, and the tiles of one image are too few for what has to
/// be read.
const MOST_BYTES: usize = 6 << 20;

/// An algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// Every product of the definition.
    Direct,
    /// 16 products in place of 36.
    Winograd,
    /// 36 products in place of 144.
    LargeWinograd,
}

impl Algorithm {
    /// The fastest one.
    pub(super) fn fastest(isa: Isa, geometry: &ConvGeometry, is_bounded: bool) -> Self {
        let shape = geometry.shape();
        let least = shape.channels[0].min(shape.channels[1]);
        let is_large = is_bounded && has_large_winograd(geometry) && is_worthwhile(geometry);
        match isa.dot() {
            Isa::Avx2 if is_large && least >= WIDE => Self::LargeWinograd,
            Isa::Avx2 if least >= WIDE && has_winograd(geometry) => Self::Winograd,
            Isa::Avx512Vnni if is_large && least >= WIDE_FOR_BYTES => Self::LargeWinograd,
            _ => Self::Direct,
        }
    }

    /// The least rows and columns of outputs that it computes.
    pub(super) const fn least_side(self) -> usize {
        match self {
            Self::Direct => 1,
            Self::Winograd => 2,
            Self::LargeWinograd => LARGE_TILE,
        }
    }
}

/// Whether a convolution is computed by Winograd's algorithm on an instruction set.
pub(crate) fn is_by_winograd(isa: Isa, geometry: &ConvGeometry) -> bool {
    Algorithm::fastest(isa, geometry, true) != Algorithm::Direct
}

/// Whether Winograd's algorithm can compute it.
pub(super) fn has_winograd(geometry: &ConvGeometry) -> bool {
    let shape = geometry.shape();
    shape.groups == 1
        && shape.kernel == [3, 3]
        && shape.stride == [1, 1]
        && shape.dilation == [1, 1]
        && shape.channels[0] <= MOST_INPUTS
        && geometry.output().iter().all(|&side| side >= Algorithm::Winograd.least_side())
}

/// The same with tiles of 4×4 outputs, for weights that [`are_bounded`].
pub(super) fn has_large_winograd(geometry: &ConvGeometry) -> bool {
    let least = Algorithm::LargeWinograd.least_side();
    has_winograd(geometry) && geometry.output().iter().all(|&side| side >= least)
}

/// Whether tiles of 4×4 outputs overlap little, and their weights are small enough.
fn is_worthwhile(geometry: &ConvGeometry) -> bool {
    let [inputs, outputs] = geometry.shape().channels;
    let [rows, columns] = geometry.output();
    let tiles = rows.div_ceil(LARGE_TILE) * columns.div_ceil(LARGE_TILE);
    rows * columns >= NEW_OUTPUTS * tiles && 36 * size_of::<i16>() * inputs * outputs <= MOST_BYTES
}

/// The weights of a dense convolution of one group for Winograd's algorithms, each made at its
/// first run.
#[derive(Debug, Clone, Default)]
pub(super) struct Transformed {
    small: OnceLock<Vec<Pairs>>,
    large: OnceLock<Vec<Pairs>>,
    is_bounded: bool,
}

/// They follow from the weights.
impl PartialEq for Transformed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Transformed {
    /// For weights of so many inputs of each output channel.
    pub(super) fn of(weights: &[i8], each: usize) -> Self {
        Self { is_bounded: are_bounded(weights, each), ..Self::default() }
    }

    pub(super) const fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    pub(super) fn bytes(&self) -> usize {
        let all = [&self.small, &self.large].into_iter().filter_map(OnceLock::get);
        all.map(|weights| size_of_val(&weights[..])).sum()
    }

    /// Those of an algorithm; none for [`Algorithm::Direct`].
    pub(super) fn get(
        &self,
        algorithm: Algorithm,
        [inputs, outputs]: [usize; 2],
        unpacked: impl FnOnce() -> Vec<i8>,
    ) -> Option<&[Pairs]> {
        Some(match algorithm {
            Algorithm::Direct => return None,
            Algorithm::Winograd => {
                self.small.get_or_init(|| transformed_weights(&unpacked(), outputs, inputs))
            }
            Algorithm::LargeWinograd => {
                self.large.get_or_init(|| large_transformed_weights(&unpacked(), outputs, inputs))
            }
        })
    }
}
