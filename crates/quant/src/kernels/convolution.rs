//! Convolutions over images in channels-last order.

use std::ops::Range;

use updraft_simd::{Isa, Uneven, over, threads};

use updraft_conv::slices::ConvGeometry;

use super::algorithm::{Algorithm, Transformed};
use super::channels::{Addend, Channels};
use super::cpu::{ChannelJob, Codes, DotJob, Pairs, WinogradJob};
use super::linear::QuantizedLinear;
use super::packed::{PANEL, Packed, Window};
use super::scratch::{Own, Scratch};
use super::windows::{
    depthwise_places, entry_at, pack_dense, pack_depthwise, pad, padded_pitch, span, unpack_dense,
};
use crate::scheme::OutputScheme;
use crate::weights::{QuantizedWeights, WeightError};

/// Bytes of a padded part of an image, so that it stays in the second cache.
const BLOCK: usize = 256 << 10;

/// Bytes that vectors may read beyond a padded image.
const SLACK: usize = 64;

/// A convolution, its weights packed once.
///
/// Padding has the zero point of the input, which is the real number zero.
/// - input: `[batch, height, width, channels]`
/// - weights, before packing: `[outputs, inputs / groups, kernel height, kernel width]`
/// - output: `[batch, height, width, channels]`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantizedConvolution {
    geometry: ConvGeometry,
    layout: Layout,
    zero_point: u8,
}

#[derive(Debug, Clone, PartialEq)]
enum Layout {
    /// Windows of one pixel at stride 1.
    Product(QuantizedLinear),
    /// Every output channel reads all input channels of its group; some groups are computed as one.
    Dense { window: Window, groups: Vec<Packed>, channels: Channels, transformed: Transformed },
    /// Every output channel reads one input channel.
    Depthwise { taps: Vec<u32>, weights: Vec<i8>, channels: Channels },
}

impl QuantizedConvolution {
    /// Packs weights for images of one size; the geometry's batch is ignored.
    ///
    /// # Errors
    /// [`WeightError::Length`] if the weights are not those of the geometry.
    pub(crate) fn try_new(
        geometry: &ConvGeometry,
        weights: &QuantizedWeights,
        output: OutputScheme,
    ) -> Result<Self, WeightError> {
        let shape = geometry.shape();
        let [inputs, outputs] = shape.channels;
        let length = |what, expected, got| WeightError::Length { what, expected, got };
        if weights.channels() != outputs {
            return Err(length("output channels", outputs, weights.channels()));
        }
        if weights.values().len() != geometry.weight_len() {
            return Err(length("weights", geometry.weight_len(), weights.values().len()));
        }
        let is_point = shape.kernel == [1, 1] && shape.padding == [0, 0];
        let layout = if shape.groups == 1 && is_point && shape.stride == [1, 1] {
            Layout::Product(QuantizedLinear::new(weights, output))
        } else {
            if shape.groups == inputs && inputs == outputs {
                // Lanes are groups here: one vector holds many of them.
                let channels = Channels::new(weights, 1, output);
                let entries = shape.kernel[0] * shape.kernel[1];
                let taps = (0..entries).map(|entry| entry_at(shape, entry)).collect();
                Layout::Depthwise { taps, weights: pack_depthwise(weights), channels }
            } else {
                let (window, groups) = pack_dense(shape, weights);
                let channels = Channels::new(weights, groups.len(), output);
                let transformed = Transformed::of(weights.values(), weights.each());
                Layout::Dense { window, groups, channels, transformed }
            }
        };
        Ok(Self { geometry: *geometry, layout, zero_point: weights.input().zero_point() })
    }

    /// Bytes of one image, before and after.
    pub(crate) fn image_lens(&self) -> [usize; 2] {
        let batch = self.geometry.shape().batch;
        [self.geometry.input_len() / batch, self.geometry.output_len() / batch]
    }

    /// Bytes of the packed weights.
    pub(crate) fn bytes(&self) -> usize {
        match &self.layout {
            Layout::Product(linear) => linear.bytes(),
            Layout::Dense { groups, transformed, .. } => {
                groups.iter().map(Packed::bytes).sum::<usize>() + transformed.bytes()
            }
            Layout::Depthwise { weights, .. } => weights.len(),
        }
    }

    /// The weights before packing, restored from the packed ones.
    pub(crate) fn weights(&self) -> QuantizedWeights {
        let shape = self.geometry.shape();
        match &self.layout {
            Layout::Product(linear) => linear.weights(),
            Layout::Dense { groups, channels, .. } => channels.weights(unpack_dense(shape, groups)),
            Layout::Depthwise { weights, channels, .. } => {
                let mut values = vec![0; self.geometry.weight_len()];
                let places = depthwise_places(values.len(), shape.channels[0]);
                places.for_each(|(packed, given)| values[given] = weights[packed]);
                channels.weights(values)
            }
        }
    }

    /// Convolves all images of `x`.
    ///
    /// # Panics
    /// If a slice holds no whole number of images or the two differ, or the CPU does not have `isa`.
    pub(crate) fn run(
        &self,
        isa: Isa,
        x: &[u8],
        y: &mut [u8],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        if let Layout::Product(linear) = &self.layout {
            self.batch(x, y);
            linear.run(isa, x, y, scratch, asked_threads);
            return;
        }
        let sink = |group, _: Range<usize>| self.channels().requantized(group);
        self.convolve((isa, self.algorithm(isa)), sink, x, y, scratch, asked_threads);
    }

    /// Convolves all images of `x`, and adds a tensor of the output's shape before the
    /// sum is rounded: a residual sum in one pass, with one rounding.
    ///
    /// # Panics
    /// If a slice holds no whole number of images or two differ, or the CPU does not have `isa`.
    pub(crate) fn run_plus(
        &self,
        isa: Isa,
        x: &[u8],
        addend: Addend<'_>,
        y: &mut [u8],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        assert_eq!(addend.codes.len(), y.len(), "codes to add");
        if let Layout::Product(linear) = &self.layout {
            self.batch(x, y);
            linear.run_plus(isa, x, addend, y, scratch, asked_threads);
            return;
        }
        let sink = |group, places| self.channels().summed(group, addend.part(places));
        self.convolve((isa, self.algorithm(isa)), sink, x, y, scratch, asked_threads);
    }

    /// The number of images.
    fn batch(&self, x: &[u8], y: &[u8]) -> usize {
        let [input_len, output_len] = self.image_lens();
        let batch = x.len() / input_len;
        assert_eq!(x.len(), batch * input_len, "whole images of the input");
        assert_eq!(y.len(), batch * output_len, "numbers of the output");
        batch
    }

    fn algorithm(&self, isa: Isa) -> Algorithm {
        match &self.layout {
            Layout::Dense { transformed, .. } => {
                Algorithm::fastest(isa, &self.geometry, transformed.is_bounded())
            }
            Layout::Product(_) | Layout::Depthwise { .. } => Algorithm::Direct,
        }
    }

    /// The weights for Winograd's algorithms.
    fn transformed(&self, algorithm: Algorithm) -> Option<&[Pairs]> {
        let Layout::Dense { groups, transformed, .. } = &self.layout else { return None };
        let shape = self.geometry.shape();
        transformed.get(algorithm, shape.channels, || unpack_dense(shape, groups))
    }

    fn channels(&self) -> &Channels {
        match &self.layout {
            Layout::Product(_) => unreachable!("a product has its own"),
            Layout::Dense { channels, .. } | Layout::Depthwise { channels, .. } => channels,
        }
    }

    /// Writes each group's part of the output through a sink.
    fn convolve<K: Codes>(
        &self,
        (isa, algorithm): (Isa, Algorithm),
        sink: impl Fn(usize, Range<usize>) -> K + Sync,
        x: &[u8],
        y: &mut [u8],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let [input_len, output_len] = self.image_lens();
        let batch = self.batch(x, y);
        if batch == 0 {
            return;
        }
        // Once, before threads wait for it.
        let _ = self.transformed(algorithm);
        let threads = threads(asked_threads);
        let parts = self.parts(threads.div_ceil(batch), algorithm.least_side());
        let (_, states) = scratch.split(0, threads, parts.padded_len + SLACK, 0);
        let row_len = output_len / self.geometry.output()[0];
        let starts = |item: usize| {
            let (image, part) = (item / parts.count, item % parts.count);
            image * output_len + parts.first_row(part) * row_len
        };
        over(Uneven::new(y, batch * parts.count, starts), states, |item, y, own| {
            let (image, part) = (item / parts.count, item % parts.count);
            let rows = [parts.first_row(part), parts.first_row(part + 1)];
            let x = &x[image * input_len..][..input_len];
            let places = starts(item)..starts(item) + y.len();
            let sink = |group, first| sink(group, places.start + first..places.end);
            self.rows((isa, algorithm), sink, rows, x, y, own);
        });
    }

    /// Divides an image's rows so that each part fits into the cache, into at least `least` parts of
    /// whole tiles.
    fn parts(&self, least: usize, tile: usize) -> Parts {
        let shape = self.geometry.shape();
        let rows = self.geometry.output()[0];
        let whole = padded_pitch(shape) * (shape.input[0] + 2 * shape.padding[0]);
        let each = rows.div_ceil(whole.div_ceil(BLOCK).max(least).min(rows));
        let each = each.next_multiple_of(tile).min(rows);
        let padded_rows = (each - 1) * shape.stride[0] + span(shape);
        let padded_len = padded_rows * padded_pitch(shape);
        Parts { count: rows.div_ceil(each), each, rows, padded_len }
    }

    /// Computes the output rows `first..last` of one image; a sink is that of a group, from a
    /// position of these rows on.
    fn rows<K: Codes>(
        &self,
        (isa, algorithm): (Isa, Algorithm),
        sink: impl Fn(usize, usize) -> K,
        [first, last]: [usize; 2],
        x: &[u8],
        y: &mut [u8],
        own: &mut Own,
    ) {
        let shape = self.geometry.shape();
        let pitch = padded_pitch(shape);
        let padded_rows = (last - first - 1) * shape.stride[0] + span(shape);
        let image = own.bytes.numbers_mut(padded_rows * pitch + SLACK);
        let padded = &mut image[..padded_rows * pitch];
        pad(shape, self.zero_point, first * shape.stride[0], x, padded);
        let image = &*image;
        let (rows, columns) = (last - first, self.geometry.output()[1]);
        let row_step = shape.stride[0] * pitch;
        let column_step = shape.stride[1] * shape.channels[0];
        match &self.layout {
            Layout::Product(_) => unreachable!("a product is not cut into rows"),
            Layout::Depthwise { taps, weights, channels } => {
                let start = channels.start(0);
                let channel_count = shape.channels[0];
                let job = ChannelJob {
                    image,
                    taps,
                    weights,
                    start,
                    channels: channel_count,
                    rows,
                    columns,
                    row_step,
                    column_step,
                };
                job.run(isa, sink(0, 0), y);
            }
            Layout::Dense { window, groups, channels, .. } => {
                let [inputs, outputs] = shape.channels.map(|channels| channels / groups.len());
                let weights = self.transformed(algorithm);
                // A part of fewer rows has no tile.
                if let Some(weights) = weights.filter(|_| rows >= algorithm.least_side()) {
                    let start = channels.start(0);
                    let row_step = pitch;
                    let job = WinogradJob {
                        image,
                        weights,
                        start,
                        inputs,
                        outputs,
                        rows,
                        columns,
                        row_step,
                    };
                    match algorithm {
                        Algorithm::LargeWinograd => {
                            job.run_large(isa, sink(0, 0), &mut own.winograd, y);
                        }
                        _ => job.run(isa, sink(0, 0), &mut own.winograd, y),
                    }
                    return;
                }
                for (group, packed) in groups.iter().enumerate() {
                    let job = DotJob {
                        image,
                        origin: group * inputs,
                        window,
                        weights: &packed.lines,
                        start: channels.start(group),
                        outputs,
                        panels: [0, outputs.div_ceil(PANEL)],
                        rows,
                        columns,
                        row_step,
                        column_step,
                        output_row: columns * shape.channels[1],
                        output_column: shape.channels[1],
                    };
                    let first = group * outputs;
                    job.run(isa, sink(group, first), &mut y[first..]);
                }
            }
        }
    }
}

/// The parts of an image's output: `each` rows, the last one fewer.
#[derive(Debug, Clone, Copy)]
struct Parts {
    count: usize,
    each: usize,
    rows: usize,
    /// Bytes of the padded rows that one part reads.
    padded_len: usize,
}

impl Parts {
    fn first_row(&self, part: usize) -> usize {
        (part * self.each).min(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use updraft_conv::slices::ConvShape;

    use super::*;
    use crate::kernels::algorithm::{has_large_winograd, has_winograd};
    use crate::kernels::cpu::MOST_INPUTS;
    use crate::kernels::reference;
    use crate::scheme::ActivationScheme;

    /// Pseudorandom numbers from 0 to 255.
    fn bytes(seed: u32, count: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(2_654_435_761) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 11) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    fn check(shape: ConvShape, zero: u8, threads: usize) -> Option<()> {
        let geometry = ConvGeometry::try_new(shape).ok()?;
        let x = bytes(1, geometry.input_len());
        let values: Vec<i8> =
            bytes(2, geometry.weight_len()).into_iter().map(|byte| byte as i8).collect();
        let outputs = shape.channels[1];
        let bias: Vec<i32> = (0..outputs as i32).map(|n| (n - 3) * 1001).collect();
        let scales: Vec<f32> = (0..outputs).map(|n| 0.001 + 0.0001 * n as f32).collect();
        let input = ActivationScheme::try_new(0.02, zero).expect("valid");
        let weights =
            QuantizedWeights::try_new(values.clone(), scales.clone(), bias.clone(), input)
                .expect("sums fit");
        let scheme = ActivationScheme::try_new(0.11, 40).expect("valid");
        let output = OutputScheme::clipped(scheme, -2.0, 20.0);
        let layer = QuantizedConvolution::try_new(&geometry, &weights, output).expect("its own");
        let right: Vec<u8> = reference::convolution_sums(&geometry, &x, zero, &values, &bias)
            .into_iter()
            .enumerate()
            .map(|(index, sum)| {
                let scale = f64::from(0.02_f32) * f64::from(scales[index % outputs]);
                reference::code(sum, scale, output)
            })
            .collect();
        let other = ActivationScheme::try_new(0.3, 77).expect("valid");
        let codes = bytes(3, geometry.output_len());
        let with_codes: Vec<u8> = reference::convolution_sums(&geometry, &x, zero, &values, &bias)
            .into_iter()
            .zip(&codes)
            .enumerate()
            .map(|(index, (sum, &code))| {
                let scale = f64::from(0.02_f32) * f64::from(scales[index % outputs]);
                reference::code_plus(sum, scale, code, other, output)
            })
            .collect();
        assert_eq!(layer.weights(), weights, "unpacked");
        for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
            // The contents of scratch and output must not change the result.
            let mut scratch = Scratch::new();
            let (_, states) = scratch.split(0, threads, 1 << 16, 0);
            states.iter_mut().for_each(|own| own.bytes.grown(1 << 16).fill(0xAA));
            let mut y = vec![0xAA; geometry.output_len()];
            layer.run(isa, &x, &mut y, &mut scratch, threads);
            assert_eq!(y, right, "{isa} {shape:?} with {threads} threads");
            y.fill(0xAA);
            let addend = Addend { scheme: other, codes: &codes };
            layer.run_plus(isa, &x, addend, &mut y, &mut scratch, threads);
            assert_eq!(y, with_codes, "{isa} {shape:?} plus a tensor, with {threads} threads");
            let Layout::Dense { transformed, .. } = &layer.layout else { continue };
            let is_large = transformed.is_bounded() && has_large_winograd(&geometry);
            let can = [
                (Algorithm::Direct, true),
                (Algorithm::Winograd, has_winograd(&geometry)),
                (Algorithm::LargeWinograd, is_large),
            ];
            for (algorithm, _) in can.into_iter().filter(|(_, can)| *can) {
                y.fill(0xAA);
                let sink = |group, _: Range<usize>| layer.channels().requantized(group);
                layer.convolve((isa, algorithm), sink, &x, &mut y, &mut scratch, threads);
                assert_eq!(y, right, "{isa} {algorithm:?} {shape:?} with {threads} threads");
                y.fill(0xAA);
                let sink = |group, places| layer.channels().summed(group, addend.part(places));
                layer.convolve((isa, algorithm), sink, &x, &mut y, &mut scratch, threads);
                assert_eq!(y, with_codes, "{isa} {algorithm:?} {shape:?} plus a tensor");
            }
        }
        Some(())
    }

    #[test]
    fn shapes_of_real_networks_are_exact() {
        let square = |batch, channels, side, kernel| {
            ConvShape::new(batch, channels, [side, side], [kernel, kernel])
        };
        for shape in [
            ConvShape { padding: [1, 1], ..square(2, [3, 16], 32, 3) },
            ConvShape { padding: [1, 1], stride: [2, 2], ..square(3, [16, 32], 16, 3) },
            ConvShape { padding: [1, 1], ..square(1, [64, 64], 8, 3) },
            ConvShape { padding: [1, 0], ..square(2, [35, 19], 11, 3) },
            ConvShape { padding: [2, 2], ..square(1, [1, 33], 7, 3) },
            ConvShape { stride: [2, 2], ..square(2, [16, 32], 16, 1) },
            square(2, [32, 16], 16, 1),
            square(2, [5, 7], 9, 1),
            ConvShape { padding: [3, 3], stride: [2, 2], ..square(1, [3, 24], 21, 7) },
            ConvShape { padding: [1, 1], groups: 24, ..square(2, [24, 24], 9, 3) },
            ConvShape { padding: [2, 2], stride: [2, 2], groups: 16, ..square(1, [16, 16], 9, 5) },
            ConvShape { padding: [1, 1], groups: 4, ..square(2, [4, 8], 9, 3) },
            ConvShape { padding: [2, 2], dilation: [2, 2], groups: 2, ..square(2, [8, 36], 11, 3) },
            ConvShape { padding: [0, 2], ..ConvShape::new(5, [4, 8], [1, 50], [1, 5]) },
        ] {
            check(shape, 117, 1).expect("valid");
            check(shape, 0, 3).expect("valid");
        }
    }

    #[test]
    fn an_image_beyond_the_cache_is_cut_without_a_seam() {
        let shape = ConvShape {
            padding: [1, 1],
            stride: [2, 1],
            ..ConvShape::new(1, [24, 2], [170, 130], [3, 3])
        };
        check(shape, 5, 1).expect("valid");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

        #[test]
        fn any_geometry_is_exact(
            batch in 1_usize..4,
            inputs in 1_usize..7,
            outputs in 1_usize..7,
            groups in prop::sample::select(vec![1_usize, 1, 1, 2, 3, 19]),
            is_depthwise in prop::bool::weighted(0.25),
            input in [1_usize..12, 1_usize..24],
            kernel in [1_usize..5, 1_usize..5],
            stride in [1_usize..4, 1_usize..4],
            padding in [0_usize..4, 0_usize..4],
            dilation in [1_usize..3, 1_usize..4],
            zero in any::<u8>(),
            threads in 1_usize..4,
        ) {
            let (channels, groups) = if is_depthwise {
                ([inputs * groups; 2], inputs * groups)
            } else {
                ([inputs * groups, outputs * groups], groups)
            };
            let shape =
                ConvShape { batch, channels, groups, input, kernel, stride, padding, dilation };
            check(shape, zero, threads);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        #[test]
        fn tiles_of_any_grid_are_exact(
            batch in 1_usize..3,
            channels in [1_usize..40, 1_usize..40],
            input in [1_usize..14, 1_usize..14],
            padding in [0_usize..3, 0_usize..3],
            zero in any::<u8>(),
            threads in 1_usize..4,
        ) {
            let shape = ConvShape { padding, ..ConvShape::new(batch, channels, input, [3, 3]) };
            check(shape, zero, threads);
        }
    }

    #[test]
    fn sums_of_the_greatest_codes_and_weights_are_exact() {
        let shape = ConvShape::new(1, [MOST_INPUTS, 16], [4, 4], [3, 3]);
        let geometry = ConvGeometry::try_new(shape).expect("valid");
        let input = ActivationScheme::try_new(1.0, 0).expect("valid");
        let output = OutputScheme::new(ActivationScheme::try_new(1e7, 128).expect("valid"));
        let x = vec![255; geometry.input_len()];
        for weight in [127, -128] {
            let values = vec![weight; geometry.weight_len()];
            let weights = QuantizedWeights::try_new(values, vec![1.0; 16], vec![0; 16], input);
            let layer =
                QuantizedConvolution::try_new(&geometry, &weights.expect("it fits"), output);
            let layer = layer.expect("its own");
            let sink = |group, _: Range<usize>| layer.channels().requantized(group);
            for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
                let both = [Algorithm::Direct, Algorithm::Winograd].map(|algorithm| {
                    let mut y = vec![0; geometry.output_len()];
                    layer.convolve((isa, algorithm), sink, &x, &mut y, &mut Scratch::new(), 1);
                    y
                });
                assert_eq!(both[0], both[1], "{isa}, weights of {weight}");
            }
        }
    }

    #[test]
    fn large_tiles_are_exact_up_to_their_bound_and_not_chosen_beyond_it() {
        let input = ActivationScheme::try_new(1.0, 0).expect("valid");
        let output = OutputScheme::new(ActivationScheme::try_new(1e7, 128).expect("valid"));
        // 130,977 of 131,585 that a channel's weights may add up to, and 132,588.
        for (inputs, weight, is_bounded) in
            [(147, 99, true), (147, -99, true), (116, 127, false), (116, -127, false)]
        {
            let shape =
                ConvShape { padding: [1, 1], ..ConvShape::new(1, [inputs, 32], [8, 8], [3, 3]) };
            let geometry = ConvGeometry::try_new(shape).expect("valid");
            let values = vec![weight; geometry.weight_len()];
            let weights = QuantizedWeights::try_new(values, vec![1.0; 32], vec![7; 32], input);
            let layer =
                QuantizedConvolution::try_new(&geometry, &weights.expect("it fits"), output);
            let layer = layer.expect("its own");
            let Layout::Dense { transformed, .. } = &layer.layout else { panic!("dense") };
            assert_eq!(transformed.is_bounded(), is_bounded, "{inputs} of {weight}");
            for isa in [Isa::Avx2, Isa::Avx512Vnni] {
                let is_large = layer.algorithm(isa) == Algorithm::LargeWinograd;
                assert_eq!(is_large, is_bounded, "{isa}");
            }
            let x = vec![255; geometry.input_len()];
            let sink = |group, _: Range<usize>| layer.channels().requantized(group);
            for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available() && is_bounded) {
                let both = [Algorithm::Direct, Algorithm::LargeWinograd].map(|algorithm| {
                    let mut y = vec![0; geometry.output_len()];
                    layer.convolve((isa, algorithm), sink, &x, &mut y, &mut Scratch::new(), 2);
                    y
                });
                assert_eq!(both[0], both[1], "{isa}, weights of {weight}");
            }
        }
    }

    #[test]
    fn weights_of_another_layer_are_refused() {
        let geometry =
            ConvGeometry::try_new(ConvShape::new(1, [2, 3], [4, 4], [3, 3])).expect("valid");
        let input = ActivationScheme::try_new(1.0, 0).expect("valid");
        let of = |channels: usize, each: usize| {
            QuantizedWeights::try_new(
                vec![1; channels * each],
                vec![1.0; channels],
                vec![0; channels],
                input,
            )
            .expect("valid")
        };
        for (weights, said) in [
            (of(2, 27), "expected 3 output channels, got 2"),
            (of(3, 9), "expected 54 weights, got 27"),
        ] {
            let error =
                QuantizedConvolution::try_new(&geometry, &weights, OutputScheme::new(input));
            assert_eq!(error.expect_err(said).to_string(), said);
        }
    }
}
