//! The choice of the algorithm for a pass of a convolution, with the reason.

use std::fmt;

use updraft_simd::{Bf16Unit, Isa, Products};

use super::direct::LineJob;
use super::geometry::{ConvGeometry, ConvShape};
use super::plan::Axis;

/// A pass of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pass {
    /// The output.
    Forward,
    /// The input's gradient.
    InputGradient,
    /// The weights' gradient.
    WeightGradient,
}

/// How a pass of a convolution is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Every product of the definition; lanes are output channels, or input channels in the input's
    /// gradient.
    DirectByChannel,
    /// Every product of the definition; lanes are neighboring pixels of a row.
    DirectByPixel,
    /// One channel per group; lanes are channels.
    DepthwiseByChannel,
    /// One channel per group, three by three; lanes are neighboring pixels of a row.
    DepthwiseByPixel,
    /// A quarter of the products, between sums of neighbors: Winograd's F(4×4, 3×3).
    ///
    /// A sample in which something is not finite, or sums leave the range of f32, is computed
    /// directly.
    Winograd,
    /// Every product, of factors that are rounded to bf16, by tiles; sums are in f32.
    Bf16Tiles,
}

/// The algorithm of a pass, with its instruction set and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strategy {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The instruction set: the requested one, or one of shorter vectors that rows fill.
    pub isa: Isa,
    /// Why this algorithm, in a few words.
    pub reason: &'static str,
}

impl Pass {
    /// Every pass, in the order of a training step.
    pub const ALL: [Self; 3] = [Self::Forward, Self::InputGradient, Self::WeightGradient];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::InputGradient => "input gradient",
            Self::WeightGradient => "weight gradient",
        }
    }
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 6] = [
        Self::DirectByChannel,
        Self::DirectByPixel,
        Self::DepthwiseByChannel,
        Self::DepthwiseByPixel,
        Self::Winograd,
        Self::Bf16Tiles,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DirectByChannel => "direct by channel",
            Self::DirectByPixel => "direct by pixel",
            Self::DepthwiseByChannel => "depthwise by channel",
            Self::DepthwiseByPixel => "depthwise by pixel",
            Self::Winograd => "winograd",
            Self::Bf16Tiles => "bf16 tiles",
        }
    }

    /// The requirement that a pass does not meet; `None` if the algorithm can compute it.
    #[must_use]
    pub fn refusal<const D: usize>(
        self,
        geometry: &ConvGeometry<D>,
        pass: Pass,
    ) -> Option<&'static str> {
        let ConvShape { channels, groups, kernel, stride, padding, dilation, .. } =
            *geometry.shape();
        let is_depthwise = D == 2 && channels == [groups; 2];
        // Within a slice: a volume may have any kernel along the depth.
        let is_dense = stride[D - 2..] == [1, 1] && dilation[D - 2..] == [1, 1];
        let is_3_by_3 = is_dense && kernel[D - 2..] == [3, 3];
        let rows_fill_a_vector = Rows::of(geometry, pass).is_some_and(|rows| rows.columns >= 8);
        let (needs, is_met) = match self {
            Self::DirectByChannel => return None,
            Self::DirectByPixel => (
                "windows that lie side by side, in rows of 8 pixels and more, and of volumes no \
                 gradient of the weights",
                rows_fill_a_vector && (D == 2 || pass != Pass::WeightGradient),
            ),
            Self::DepthwiseByChannel => ("images and one channel a group", is_depthwise),
            Self::DepthwiseByPixel => (
                "images, one channel a group and a kernel of 3×3 with stride and dilation 1 and a \
                 padding of at most 2",
                is_depthwise && is_3_by_3 && padding.iter().all(|&padding| padding <= 2),
            ),
            Self::Winograd => (
                "a kernel of 3×3 with stride and dilation 1, and for the gradient of a volume no \
                 stride along the depth",
                is_3_by_3 && (pass != Pass::InputGradient || stride == [1; D]),
            ),
            Self::Bf16Tiles => (
                "products in bf16, images, one group, a stride and a dilation of 1, and a padding \
                 below the kernel",
                geometry.products() == Products::Bf16
                    && D == 2
                    && groups == 1
                    && stride == [1; D]
                    && dilation == [1; D]
                    && (0..D).all(|axis| padding[axis] < kernel[axis]),
            ),
        };
        (!is_met).then_some(needs)
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}): {}", self.algorithm, self.isa, self.reason)
    }
}

/// Which algorithm computes a pass of a convolution of images or volumes with an instruction set, and
/// why.
///
/// The algorithm of [`ConvGeometry::with_algorithm`] is used in every pass that it can compute.
#[must_use]
pub fn strategy<const D: usize>(isa: Isa, geometry: &ConvGeometry<D>, pass: Pass) -> Strategy {
    let isa = isa.base();
    if let Some(algorithm) = geometry.forced()
        && algorithm.refusal(geometry, pass).is_none()
    {
        let isa = match algorithm {
            Algorithm::DirectByPixel => {
                isa_of_rows(isa, Rows::of(geometry, pass).map(|rows| rows.columns))
            }
            Algorithm::DepthwiseByPixel => isa_of_rows(isa, Some(width(geometry, pass))),
            _ => isa,
        };
        return Strategy { algorithm, isa, reason: "asked for" };
    }
    if gains_from_tiles(isa, geometry, pass) {
        let reason = "products in bf16 of a unit for them";
        return Strategy { algorithm: Algorithm::Bf16Tiles, isa, reason };
    }
    if gains_from_winograd(isa, geometry, pass) {
        let reason = "many channels: a quarter of the products";
        return Strategy { algorithm: Algorithm::Winograd, isa, reason };
    }
    if let Some(depthwise) = depthwise(isa, geometry, pass) {
        return depthwise;
    }
    let isa = if D == 2 { isa_for_few(isa, geometry, pass) } else { isa };
    let (algorithm, reason) = direct(isa, geometry, pass);
    Strategy { algorithm, isa, reason }
}

/// The direct algorithm of a pass with these vectors, and why.
pub(super) fn direct<const D: usize>(
    isa: Isa,
    geometry: &ConvGeometry<D>,
    pass: Pass,
) -> (Algorithm, &'static str) {
    if D > 2 && pass == Pass::WeightGradient {
        return (Algorithm::DirectByChannel, "the only one for the weights of volumes");
    }
    let Some(Rows { columns, .. }) = Rows::of(geometry, pass) else {
        return (Algorithm::DirectByChannel, "windows of neighboring pixels lie apart");
    };
    if columns < isa.lanes() {
        return (Algorithm::DirectByChannel, "rows of pixels are shorter than a vector");
    }
    let channels = lane_channels(geometry, pass);
    if pass == Pass::WeightGradient && !are_few(channels, isa) {
        return (Algorithm::DirectByChannel, "there are channels for a vector");
    }
    let filled = |count: usize| count as f64 / count.next_multiple_of(isa.lanes()) as f64;
    // With lanes full, sums over pixels take three quarters of the time of sums over channels.
    if filled(columns) >= 0.75 * filled(channels) {
        (Algorithm::DirectByPixel, "rows of pixels fill vectors")
    } else {
        (Algorithm::DirectByChannel, "channels fill vectors better than rows of pixels")
    }
}

/// How a convolution of images with one channel a group is computed.
fn depthwise<const D: usize>(isa: Isa, geometry: &ConvGeometry<D>, pass: Pass) -> Option<Strategy> {
    let by_pixel = Algorithm::DepthwiseByPixel;
    let columns = width(geometry, pass);
    // Of 128 channels on a Zen 4, rows of 5 pixels took 0.8 to 1.2 of the time of sums over channels, 6
    // took 0.7 to 1.04, 7 and 8 took 0.6 to 0.9, and 12 and more 0.4 to 0.7.
    if columns >= 6 && by_pixel.refusal(geometry, pass).is_none() {
        // The longest vectors that rows of results fill by four fifths, or the shorter ones.
        let is_filled = 5 * columns >= 4 * columns.next_multiple_of(isa.lanes());
        return Some(Strategy {
            algorithm: by_pixel,
            isa: if is_filled { isa } else { shorter(isa) },
            reason: "one channel a group, and rows of pixels for vectors",
        });
    }
    let groups = geometry.shape().groups;
    let algorithm = Algorithm::DepthwiseByChannel;
    // Channels that fill three quarters of their vectors take less time than sums over pixels.
    let is_filled = 4 * groups >= 3 * groups.next_multiple_of(isa.lanes());
    (is_filled && algorithm.refusal(geometry, pass).is_none()).then_some(Strategy {
        algorithm,
        isa,
        reason: "one channel a group, and channels fill vectors",
    })
}

/// Whether products of a unit for bf16 save more time than its tiles cost.
fn gains_from_tiles<const D: usize>(isa: Isa, geometry: &ConvGeometry<D>, pass: Pass) -> bool {
    let ConvShape { channels: [inputs, outputs], kernel, .. } = *geometry.shape();
    let fewest = inputs.min(outputs);
    let taps: usize = kernel.iter().product();
    // A tile has 32 input channels and 16 pixels. On a Xeon with AMX, of all three passes: 3×3 took 0.6
    // to 0.9 of the time in f32 with 16 channels, 0.2 to 0.6 with 32 and more, and 0.8 to 1.2 with 12;
    // 1×1 0.7 to 0.8 with 64 channels, and as long as in f32 with 48.
    let pays = fewest >= 16 && taps * fewest >= 64;
    let fills_tiles = geometry.output().iter().product::<usize>() >= 16;
    Algorithm::Bf16Tiles.refusal(geometry, pass).is_none()
        && isa != Isa::Portable
        && Bf16Unit::detect().has_tiles()
        && pays
        && fills_tiles
}

/// Whether the products that Winograd's algorithm leaves out take longer than its transforms.
fn gains_from_winograd<const D: usize>(isa: Isa, geometry: &ConvGeometry<D>, pass: Pass) -> bool {
    let ConvShape { batch, channels, groups, .. } = *geometry.shape();
    let [height, width] = [D - 2, D - 1].map(|axis| geometry.output()[axis]);
    let tiles = height.div_ceil(4) * width.div_ceil(4);
    let has_many = |channels: &usize| channels / groups >= 16;
    // With AVX-512, products are fast and few tiles of few channels do not pay for the transforms.
    // All passes of 32 to 128 channels at 16 × 16 to 32 × 32 took 0.55 to 0.84 of the direct time on a
    // Xeon with AMX, at 14 × 14 0.9 to 1.2; on a Zen 4, forward passes of 32 to 256 channels took 0.37
    // to 0.61. With 16 and 24 channels the Xeon took 0.9 to 1.06 of it at 16 × 16, and 64 samples with
    // the weight gradient alone 1.14 times on a Zen 4.
    let has_few_channels = channels.iter().any(|channels| channels / groups < 32);
    // The slices of a volume share their transforms.
    let fewest_tiles = match isa {
        _ if D > 2 => 0,
        Isa::Avx512 if has_few_channels => 128,
        _ => 16,
    };
    // Tiles of results reach over the image; they are multiplied by the same weights over all
    // samples of a chunk, of which the weight gradient has 16.
    !geometry.is_direct()
        && Algorithm::Winograd.refusal(geometry, pass).is_none()
        && channels.iter().all(has_many)
        && 16 * tiles * 5 <= 8 * height * width
        && tiles * batch.div_ceil(16) >= fewest_tiles
}

/// A grid of results whose windows are adjacent in the padded image, in rows as long as possible.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// The distance between the windows of two rows in the image.
    pub(super) row_step: usize,
}

impl Rows {
    /// The grid of an image or a slice; `None` where windows of neighbors do not lie side by side.
    pub(super) fn of<const D: usize>(geometry: &ConvGeometry<D>, pass: Pass) -> Option<Self> {
        let ConvShape { input, stride, padding, .. } = *geometry.shape();
        let (size, row_step) = match pass {
            Pass::Forward | Pass::WeightGradient => {
                let padded = input[D - 1] + 2 * padding[D - 1];
                (stride[D - 1] == 1).then_some((geometry.output(), stride[D - 2] * padded))?
            }
            Pass::InputGradient => {
                let padded = (stride == [1; D]).then(|| Axis::of(geometry, D - 1).size)?;
                (input, padded)
            }
        };
        let (rows, columns) = (size[D - 2], size[D - 1]);
        // Without padding, one row of an image continues where the other ends.
        let is_one = D == 2 && row_step == columns;
        let [rows, columns] = if is_one { [1, rows * columns] } else { [rows, columns] };
        Some(Self { rows, columns, row_step })
    }

    pub(super) fn job<'a>(
        self,
        image: &'a [f32],
        taps: &'a [u32],
        weights: &'a [f32],
        start: &'a [f32],
        channels: usize,
    ) -> LineJob<'a> {
        let Self { rows, columns, row_step } = self;
        LineJob { image, taps, weights, start, channels, rows, columns, row_step }
    }
}

/// Channels that can be the lanes of a vector.
const fn lane_channels<const D: usize>(geometry: &ConvGeometry<D>, pass: Pass) -> usize {
    let ConvShape { channels: [inputs, outputs], groups, .. } = *geometry.shape();
    match pass {
        Pass::Forward | Pass::WeightGradient => outputs / groups,
        Pass::InputGradient => inputs / groups,
    }
}

/// Pixels in a row of results.
const fn width<const D: usize>(geometry: &ConvGeometry<D>, pass: Pass) -> usize {
    match pass {
        Pass::Forward | Pass::WeightGradient => geometry.output()[D - 1],
        Pass::InputGradient => geometry.shape().input[D - 1],
    }
}

/// Whether a vector of so many channels would be mostly empty.
const fn are_few(channels: usize, isa: Isa) -> bool {
    channels * 4 <= isa.lanes()
}

/// The next shorter vectors of the architecture.
fn shorter(isa: Isa) -> Isa {
    if isa == Isa::Avx512 { Isa::Avx2 } else { isa }
}

/// The vectors that so many pixels fill: those of the set, or shorter ones.
fn isa_of_rows(isa: Isa, columns: Option<usize>) -> Isa {
    if columns.is_some_and(|columns| columns >= isa.lanes()) { isa } else { shorter(isa) }
}

/// Shorter vectors where only these are filled by rows of few channels.
fn isa_for_few<const D: usize>(isa: Isa, geometry: &ConvGeometry<D>, pass: Pass) -> Isa {
    let (columns, shorter) = (width(geometry, pass), shorter(isa));
    let fits = columns >= shorter.lanes() && columns < isa.lanes();
    let helps = geometry.shape().stride == [1; D] && are_few(lane_channels(geometry, pass), isa);
    if fits && helps { shorter } else { isa }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked<const D: usize>(isa: Isa, shape: ConvShape<D>) -> [Algorithm; 3] {
        let geometry = ConvGeometry::try_new(shape).expect("valid");
        Pass::ALL.map(|pass| strategy(isa, &geometry, pass).algorithm)
    }

    #[test]
    fn products_in_bf16_are_of_tiles_where_a_unit_makes_them_faster() {
        let tiles = |channels: [usize; 2], side: usize, kernel: usize, stride: usize| {
            let shape = ConvShape {
                padding: [kernel / 2; 2],
                stride: [stride; 2],
                ..ConvShape::new(64, channels, [side; 2], [kernel; 2])
            };
            let geometry = ConvGeometry::try_new(shape).expect("valid");
            assert!(Algorithm::Bf16Tiles.refusal(&geometry, Pass::Forward).is_some(), "in f32");
            let geometry = geometry.with_products(Products::Bf16);
            let chosen = |isa: Isa| {
                Pass::ALL
                    .map(|pass| strategy(isa, &geometry, pass).algorithm == Algorithm::Bf16Tiles)
            };
            assert_eq!(chosen(Isa::Portable), [false; 3]);
            let all = chosen(Isa::detect());
            assert_eq!(all, [all[0]; 3], "one algorithm for all passes");
            all[0]
        };
        let unit = Bf16Unit::detect().has_tiles();
        for (channels, side, kernel, stride, pays) in [
            ([16, 16], 32, 3, 1, true),
            ([64, 64], 8, 3, 1, true),
            ([64, 64], 16, 1, 1, true),
            ([256, 256], 4, 3, 1, true),
            ([12, 24], 16, 3, 1, false),
            ([3, 64], 32, 3, 1, false),
            ([48, 64], 16, 1, 1, false),
            ([64, 64], 2, 3, 1, false),
            ([64, 128], 16, 3, 2, false),
        ] {
            assert_eq!(tiles(channels, side, kernel, stride), pays && unit, "{channels:?} {side}");
        }
        let grouped = ConvShape { groups: 2, ..ConvShape::new(1, [64, 64], [8, 8], [3, 3]) };
        let grouped = ConvGeometry::try_new(grouped).expect("valid").with_products(Products::Bf16);
        assert!(Algorithm::Bf16Tiles.refusal(&grouped, Pass::Forward).is_some(), "groups");
        let volume = ConvShape::new(1, [64, 64], [8, 8, 8], [3, 3, 3]);
        let volume = ConvGeometry::try_new(volume).expect("valid").with_products(Products::Bf16);
        assert!(Algorithm::Bf16Tiles.refusal(&volume, Pass::Forward).is_some(), "a volume");
    }

    #[test]
    fn the_algorithm_follows_from_the_shape() {
        use Algorithm::{
            DepthwiseByChannel, DepthwiseByPixel, DirectByChannel, DirectByPixel, Winograd,
        };
        let shape = |channels, side, kernel: usize| ConvShape {
            padding: [kernel / 2; 2],
            ..ConvShape::new(64, channels, [side, side], [kernel, kernel])
        };
        let strided = |shape| ConvShape { stride: [2, 2], ..shape };
        let depthwise = |channels: usize, side, kernel| ConvShape {
            groups: channels,
            ..shape([channels; 2], side, kernel)
        };
        for (what, shape, avx2, avx512) in [
            ("stem", shape([3, 16], 32, 3), [DirectByPixel, DirectByPixel, DirectByChannel], None),
            ("strided stem", strided(shape([3, 16], 32, 3)), [DirectByChannel; 3], None),
            (
                "3×3 of few tiles",
                shape([16, 16], 16, 3),
                [Winograd; 3],
                Some([DirectByPixel, DirectByPixel, DirectByChannel]),
            ),
            ("3×3", shape([64, 64], 56, 3), [Winograd; 3], None),
            ("strided 3×3", strided(shape([16, 32], 16, 3)), [DirectByChannel; 3], None),
            (
                "pointwise",
                shape([32, 16], 16, 1),
                [DirectByPixel, DirectByPixel, DirectByChannel],
                None,
            ),
            ("depthwise", depthwise(64, 56, 3), [DepthwiseByPixel; 3], None),
            ("strided depthwise", strided(depthwise(64, 56, 3)), [DepthwiseByChannel; 3], None),
            ("depthwise of few channels", depthwise(3, 7, 3), [DepthwiseByPixel; 3], None),
            ("depthwise of few pixels", depthwise(64, 5, 3), [DepthwiseByChannel; 3], None),
            ("depthwise of few of both", depthwise(3, 5, 3), [DirectByChannel; 3], None),
        ] {
            assert_eq!(picked(Isa::Avx2, shape), avx2, "{what} on AVX2");
            assert_eq!(picked(Isa::Avx512, shape), avx512.unwrap_or(avx2), "{what} on AVX-512");
        }
    }

    #[test]
    fn the_algorithm_of_volumes_follows_from_the_shape() {
        use Algorithm::{DirectByChannel, DirectByPixel, Winograd};
        let shape = |channels, side: usize| ConvShape {
            padding: [1; 3],
            ..ConvShape::new(2, channels, [side; 3], [3; 3])
        };
        let by_pixel = [DirectByPixel, DirectByPixel, DirectByChannel];
        for (what, shape, avx2, avx512) in [
            ("stem", shape([1, 16], 64), by_pixel, None),
            ("3×3×3", shape([16, 16], 64), [Winograd; 3], None),
            ("3×3×3 of many channels", shape([64, 64], 16), [Winograd; 3], None),
            (
                "strided 3×3×3",
                ConvShape { stride: [2; 3], ..shape([16, 32], 32) },
                [DirectByChannel; 3],
                None,
            ),
            (
                "strided along the depth",
                ConvShape { stride: [2, 1, 1], ..shape([16, 32], 32) },
                [Winograd, DirectByChannel, Winograd],
                None,
            ),
            ("rows of 8", shape([8, 8], 8), by_pixel, Some([DirectByChannel; 3])),
            ("rows of 16 for 16 channels", shape([8, 16], 16), by_pixel, None),
            ("pointwise", ConvShape::new(2, [32, 16], [16; 3], [1; 3]), by_pixel, None),
            ("depthwise", ConvShape { groups: 16, ..shape([16, 16], 16) }, by_pixel, None),
        ] {
            assert_eq!(picked(Isa::Avx2, shape), avx2, "{what} on AVX2");
            assert_eq!(picked(Isa::Avx512, shape), avx512.unwrap_or(avx2), "{what} on AVX-512");
        }
    }

    #[test]
    fn rows_that_fill_no_long_vector_take_a_short_one() {
        let shape = ConvShape { padding: [1, 1], ..ConvShape::new(1, [16, 4], [8, 8], [3, 3]) };
        let geometry = ConvGeometry::try_new(shape).expect("valid");
        let picked = strategy(Isa::Avx512, &geometry, Pass::Forward);
        assert_eq!((picked.algorithm, picked.isa), (Algorithm::DirectByPixel, Isa::Avx2));
        assert_eq!(picked.to_string(), "direct by pixel (avx2): rows of pixels fill vectors");
        let picked = strategy(Isa::Avx512Bf16, &geometry, Pass::InputGradient);
        assert_eq!((picked.algorithm, picked.isa), (Algorithm::DirectByChannel, Isa::Avx512));
    }

    #[test]
    fn what_is_asked_for_is_taken_where_it_can_be() {
        let shape =
            ConvShape { padding: [1, 1], groups: 32, ..ConvShape::new(2, [32; 2], [9, 9], [3, 3]) };
        let geometry = ConvGeometry::try_new(shape).expect("valid");
        // Tiles of bf16 have no groups.
        let is_f32 = |algorithm: &Algorithm| *algorithm != Algorithm::Bf16Tiles;
        for algorithm in Algorithm::ALL.into_iter().filter(is_f32) {
            let forced = geometry.with_algorithm(algorithm).expect("it applies");
            for pass in Pass::ALL {
                let picked = strategy(Isa::Avx2, &forced, pass);
                let is_refused = algorithm.refusal(&geometry, pass).is_some();
                assert_eq!(picked.algorithm == algorithm, !is_refused, "{algorithm}, {pass}");
            }
        }
        let strided = ConvShape { stride: [2, 2], ..shape };
        let strided = ConvGeometry::try_new(strided).expect("valid");
        let refused = strided.with_algorithm(Algorithm::Winograd).expect_err("a stride of two");
        assert_eq!(
            refused.to_string(),
            "the algorithm `winograd` needs a kernel of 3×3 with stride and dilation 1, and for the \
             gradient of a volume no stride along the depth; leave the choice to `try_new`"
        );
    }

    fn geometry<const D: usize>(shape: ConvShape<D>) -> ConvGeometry<D> {
        ConvGeometry::try_new(shape).expect("valid")
    }

    #[test]
    fn passes_have_the_names_of_reports() {
        let names = Pass::ALL.map(|pass| pass.to_string());
        assert_eq!(names, ["forward", "input gradient", "weight gradient"]);
    }

    #[test]
    fn requirements_hold_at_their_limits() {
        let refused =
            |shape, pass| Algorithm::DirectByPixel.refusal(&geometry::<2>(shape), pass).is_some();
        let image =
            |side| ConvShape { padding: [1; 2], ..ConvShape::new(1, [4; 2], [side; 2], [3; 2]) };
        assert_eq!(Pass::ALL.map(|pass| refused(image(8), pass)), [false; 3]);
        assert_eq!(Pass::ALL.map(|pass| refused(image(7), pass)), [true; 3]);
        let volume = ConvShape { padding: [1; 3], ..ConvShape::new(1, [4; 2], [8; 3], [3; 3]) };
        let volume = geometry(volume);
        let refused =
            Pass::ALL.map(|pass| Algorithm::DirectByPixel.refusal(&volume, pass).is_some());
        assert_eq!(refused, [false, false, true]);

        let tiles = |padding| {
            let shape = ConvShape { padding, ..ConvShape::new(1, [64; 2], [16; 2], [3; 2]) };
            let geometry = geometry(shape).with_products(Products::Bf16);
            Algorithm::Bf16Tiles.refusal(&geometry, Pass::Forward).is_none()
        };
        assert_eq!([[2, 2], [3, 2], [2, 3]].map(tiles), [true, false, false]);
    }

    #[test]
    fn algorithms_that_were_asked_for_take_vectors_that_rows_fill() {
        let shape = |side| ConvShape {
            padding: [1; 2],
            groups: 32,
            ..ConvShape::new(1, [32; 2], [side; 2], [3; 2])
        };
        for algorithm in [Algorithm::DirectByPixel, Algorithm::DepthwiseByPixel] {
            for (side, isa) in [(15, Isa::Avx2), (16, Isa::Avx512)] {
                let forced = geometry(shape(side)).with_algorithm(algorithm).expect("it applies");
                let picked = strategy(Isa::Avx512, &forced, Pass::Forward);
                assert_eq!((picked.algorithm, picked.isa), (algorithm, isa), "{side}");
            }
        }
    }

    #[test]
    fn few_channels_take_shorter_vectors_only_in_rows_that_no_longer_one_fits() {
        let image = |outputs, side| ConvShape {
            padding: [1; 2],
            ..ConvShape::new(1, [3, outputs], [side; 2], [3; 2])
        };
        for (outputs, side, isa) in
            [(4, 15, Isa::Avx2), (4, 16, Isa::Avx512), (4, 32, Isa::Avx512), (5, 15, Isa::Avx512)]
        {
            let picked = strategy(Isa::Avx512, &geometry(image(outputs, side)), Pass::Forward);
            assert_eq!(picked.isa, isa, "{outputs} channels, rows of {side}");
        }
        // The channels of 4 outputs fill a quarter of a vector, those of 5 more.
        let weights = |outputs| {
            strategy(Isa::Avx512, &geometry(image(outputs, 32)), Pass::WeightGradient).algorithm
        };
        assert_eq!([4, 5].map(weights), [Algorithm::DirectByPixel, Algorithm::DirectByChannel]);
    }

    #[test]
    fn depthwise_rows_fill_four_fifths_of_long_vectors() {
        use Algorithm::{DepthwiseByChannel, DepthwiseByPixel};
        for (side, algorithm, isa) in [
            (5, DepthwiseByChannel, Isa::Avx512),
            (6, DepthwiseByPixel, Isa::Avx2),
            (12, DepthwiseByPixel, Isa::Avx2),
            (13, DepthwiseByPixel, Isa::Avx512),
            (17, DepthwiseByPixel, Isa::Avx2),
            (26, DepthwiseByPixel, Isa::Avx512),
        ] {
            let shape = ConvShape {
                padding: [1; 2],
                groups: 64,
                ..ConvShape::new(1, [64; 2], [side; 2], [3; 2])
            };
            let picked = strategy(Isa::Avx512, &geometry(shape), Pass::Forward);
            assert_eq!((picked.algorithm, picked.isa), (algorithm, isa), "{side}");
        }
    }

    #[test]
    fn winograd_needs_full_tiles_and_enough_of_them() {
        for (batch, size, is_picked) in [
            // 16 tiles of one sample, then 15.
            (1, [4, 64], true),
            (1, [4, 60], false),
            // Tiles of a batch count once for 16 samples.
            (64, [8, 8], true),
            (48, [8, 8], false),
            // 4 tiles have 64 results, of which 25 are used.
            (256, [5, 5], false),
        ] {
            let shape =
                ConvShape { padding: [1; 2], ..ConvShape::new(batch, [16; 2], size, [3; 2]) };
            let picked = strategy(Isa::Avx2, &geometry(shape), Pass::Forward).algorithm;
            assert_eq!(picked == Algorithm::Winograd, is_picked, "{batch} of {size:?}");
        }
    }

    #[test]
    fn with_avx512_few_channels_need_more_tiles() {
        for (batch, channels, side, is_picked) in [
            (1, 64, 32, true),
            (1, 32, 16, true),
            (64, 32, 8, true),
            (16, 64, 8, false),
            (1, 16, 32, false),
            (64, 16, 16, false),
            (32, 16, 32, true),
        ] {
            let shape = ConvShape {
                padding: [1; 2],
                ..ConvShape::new(batch, [channels; 2], [side; 2], [3; 2])
            };
            for pass in [Pass::Forward, Pass::InputGradient, Pass::WeightGradient] {
                let picked = strategy(Isa::Avx512, &geometry(shape), pass).algorithm;
                let is_winograd = picked == Algorithm::Winograd;
                assert_eq!(is_winograd, is_picked, "{batch} of {channels} channels, {side} pixels");
            }
        }
    }

    #[test]
    fn rows_are_those_of_the_padded_image() {
        let rows = |shape| {
            Rows::of(&geometry::<2>(shape), Pass::Forward)
                .map(|Rows { rows, columns, row_step }| [rows, columns, row_step])
        };
        let shape = ConvShape {
            padding: [0, 3],
            stride: [2, 1],
            ..ConvShape::new(1, [4; 2], [7, 10], [3, 7])
        };
        assert_eq!(rows(shape), Some([3, 10, 32]));
        // Without padding, one row continues where the other ends.
        assert_eq!(rows(ConvShape::new(1, [4; 2], [6, 10], [1, 1])), Some([1, 60, 10]));
        let volume = geometry(ConvShape::new(1, [4; 2], [3, 6, 10], [1; 3]));
        let Rows { rows, columns, .. } = Rows::of(&volume, Pass::Forward).expect("side by side");
        assert_eq!([rows, columns], [6, 10]);
    }

    #[test]
    fn lanes_are_channels_of_one_group() {
        let grouped = ConvShape { groups: 2, ..ConvShape::new(1, [8, 12], [8; 2], [3; 2]) };
        let grouped = geometry(grouped);
        assert_eq!(Pass::ALL.map(|pass| lane_channels(&grouped, pass)), [6, 4, 6]);
    }
}
