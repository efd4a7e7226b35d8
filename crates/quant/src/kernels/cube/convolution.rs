//! Convolutions and matrix products: windows of words times weights.
//!
//! A unit computes four channels of four neighboring pixels, so that each word of codes is read for
//! four weights, and each word of weights for four pixels.

use cubecl::prelude::*;
use updraft_conv::slices::{ConvGeometry, ConvShape};

use super::channels::OfChannels;
use super::device_kernel::DeviceKernel;
use super::layout::words_of;
use super::reason::DeviceReason;
use super::rounding::{Bounds, Plus, bounds, finished, plus};
use super::tiles::{cubes, unit_index, units};
use super::window::{OUTSIDE, Window, WindowSizes, pixel_at, place_of};
use super::words::Words;
use crate::scheme::{ActivationScheme, OutputScheme};
use crate::weights::QuantizedWeights;

/// Pixels of a unit.
const PIXELS: usize = 4;

/// How much lower the signed bytes are that codes become, by the change of one bit.
const LOWER: i32 = 128;
const LOWER_BITS: u32 = 0x8080_8080;

/// A convolution, dense or grouped, or a matrix product, with its weights on a device.
#[derive(Debug)]
pub(crate) struct CubeConvolution {
    sizes: WindowSizes,
    /// `[entries, words, 4, quads]`: four weights of a channel, four channels of a quad.
    weights: Words,
    /// Starts, factors and first words: `[9][quads]`.
    channels: Words,
    /// Words of a pixel of the input, and those of them that an output channel reads.
    pitch: usize,
    words: usize,
    /// Words of a pixel of the output.
    quads: usize,
    is_grouped: bool,
    /// Four codes of zero, for the padding.
    border: u32,
    output: OutputScheme,
    plus: Option<(i32, u32)>,
    dequantize: Vec<f32>,
}

/// What a unit writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Writes {
    Codes,
    /// The codes of sums to which codes of another tensor are added.
    Summed,
    /// The sums themselves.
    Sums,
}

/// The words of the input that each quad of outputs reads.
struct Read {
    words: usize,
    firsts: Vec<usize>,
}

impl CubeConvolution {
    /// Copies the weights `[outputs, inputs / groups, rows, columns]` to a device; the geometry's
    /// batch is ignored. Codes of a scheme may be added to the sums before they are rounded.
    pub(crate) fn try_new(
        client: &Client,
        geometry: &ConvGeometry,
        weights: &QuantizedWeights,
        output: OutputScheme,
        addend: Option<ActivationScheme>,
    ) -> Result<Self, DeviceReason> {
        let ConvShape { channels: [inputs, outputs], groups, .. } = *geometry.shape();
        let sizes = WindowSizes::new(geometry);
        let (each, of_group, entries) = (inputs / groups, outputs / groups, sizes.entries());
        let first_of = move |output: usize| output / of_group * each;
        let pitch = words_of(inputs);
        // The words with the input channels of all groups of a quad.
        let words = (0..outputs).step_by(4).map(|output| {
            let last = first_of((output + 3).min(outputs - 1)) + each;
            last.div_ceil(4) - first_of(output) / 4
        });
        let words = words.max().expect("a layer has an output channel");
        let firsts = (0..outputs).step_by(4);
        let firsts = firsts.map(|output| (first_of(output) / 4).min(pitch - words)).collect();
        let weight = |output: usize, channel: usize, entry: usize| {
            let within = channel.checked_sub(first_of(output)).filter(|&within| within < each)?;
            Some(weights.values()[(output * each + within) * entries + entry])
        };
        let read = Read { words, firsts };
        Self::new(client, sizes, pitch, read, weights, output, addend, weight)
    }

    /// Copies the weights `[outputs, channels, pixels]` of a matrix product to a device.
    pub(crate) fn try_product(
        client: &Client,
        channels: usize,
        weights: &QuantizedWeights,
        output: OutputScheme,
    ) -> Result<Self, DeviceReason> {
        let each = weights.each();
        let (pixels, of_pixel) = (each / channels, words_of(channels));
        let weight = |output: usize, place: usize, _: usize| {
            let (pixel, channel) = (place / (4 * of_pixel), place % (4 * of_pixel));
            let value = || weights.values()[output * each + channel * pixels + pixel];
            (channel < channels).then(value)
        };
        let (sizes, pitch) = (WindowSizes::of_point(), pixels * of_pixel);
        let read = Read { words: pitch, firsts: vec![0; words_of(weights.channels())] };
        Self::new(client, sizes, pitch, read, weights, output, None, weight)
    }

    /// Packs weights, by output, input channel and entry of the window.
    #[expect(clippy::too_many_arguments, reason = "a layer's sizes, weights, schemes and device")]
    fn new(
        client: &Client,
        sizes: WindowSizes,
        pitch: usize,
        Read { words, firsts }: Read,
        weights: &QuantizedWeights,
        output: OutputScheme,
        addend: Option<ActivationScheme>,
        weight: impl Fn(usize, usize, usize) -> Option<i8>,
    ) -> Result<Self, DeviceReason> {
        let of_channels = OfChannels::try_new(weights, output, LOWER, addend)?;
        let OfChannels { words: mut channels, dequantize, plus } = of_channels;
        channels.extend(firsts.iter().map(|&first| first as u32));
        let mut packed = Vec::with_capacity(sizes.entries() * words * 4 * firsts.len());
        for (entry, word) in (0..sizes.entries()).flat_map(|e| (0..words).map(move |w| (e, w))) {
            for (lane, quad) in (0..4).flat_map(|l| (0..firsts.len()).map(move |q| (l, q))) {
                let of_output = 4 * quad + lane;
                let byte = |byte: usize| match of_output < weights.channels() {
                    true => weight(of_output, 4 * (firsts[quad] + word) + byte, entry),
                    false => None,
                };
                let bytes: [u8; 4] = std::array::from_fn(|at| byte(at).unwrap_or(0) as u8);
                packed.push(u32::from_le_bytes(bytes));
            }
        }
        Ok(Self {
            sizes,
            weights: Words::upload(client, &packed),
            channels: Words::upload(client, &channels),
            pitch,
            words,
            quads: firsts.len(),
            is_grouped: firsts.iter().any(|&first| first > 0),
            border: u32::from_le_bytes([weights.input().zero_point(); 4]),
            output,
            plus,
            dequantize,
        })
    }

    /// The real units of each output's sums.
    pub(crate) fn dequantize(&self) -> &[f32] {
        &self.dequantize
    }

    /// Words of a sample's sums: one for each output channel, to whole quads.
    pub(crate) const fn sum_words(&self) -> usize {
        4 * self.quads * self.sizes.pixels()
    }

    /// Computes the sums `y`, `[samples, pixels, 4·quads]`, of some samples, at least one.
    pub(crate) fn run_sums(&self, client: &Client, x: &Words, y: &Words, samples: usize) {
        self.launch(client, x, x, y, samples, Writes::Sums);
    }

    fn launch(
        &self,
        client: &Client,
        x: &Words,
        others: &Words,
        y: &Words,
        samples: usize,
        writes: Writes,
    ) {
        let pixels = samples * self.sizes.pixels();
        sums_of_windows::launch(
            client,
            cubes(pixels.div_ceil(PIXELS) * self.quads),
            units(),
            AddressType::U32,
            x.arg(),
            self.weights.arg(),
            self.channels.arg(),
            others.arg(),
            y.arg(),
            self.sizes.arg(),
            bounds(self.output),
            plus(self.plus.unwrap_or_default()),
            pixels as u32,
            self.pitch as u32,
            self.words as u32,
            self.quads as u32,
            self.border,
            writes,
            self.is_grouped,
        );
    }
}

impl DeviceKernel for CubeConvolution {
    fn run(&self, client: &Client, x: &[&Words], y: &Words, samples: usize) {
        match self.plus {
            None => self.launch(client, x[0], x[0], y, samples, Writes::Codes),
            Some(_) => self.launch(client, x[0], x[1], y, samples, Writes::Summed),
        }
    }
}

/// A matrix product, whose sums can be read.
#[derive(Debug)]
pub(crate) struct CubeProduct(pub(crate) CubeConvolution);

impl DeviceKernel for CubeProduct {
    fn run(&self, client: &Client, x: &[&Words], y: &Words, samples: usize) {
        self.0.run(client, x, y, samples);
    }

    fn product(&self) -> Option<&CubeConvolution> {
        Some(&self.0)
    }
}

#[cube(launch, address_type = "dynamic")]
fn sums_of_windows(
    x: &[u32],
    weights: &[u32],
    channels: &[u32],
    others: &[u32],
    y: &mut [u32],
    window: Window,
    bounds: Bounds,
    plus: Plus,
    pixels: u32,
    pitch: u32,
    words: u32,
    quads: u32,
    border: u32,
    #[comptime] writes: Writes,
    #[comptime] is_grouped: bool,
) {
    let index = unit_index();
    let quad = index % quads;
    let first = index / quads * comptime!(PIXELS as u32);
    if first < pixels {
        let mut first_word = 0u32.runtime();
        if comptime!(is_grouped) {
            first_word = channels[(8u32 * quads + quad) as usize];
        }
        let mut images = Array::<u32>::new(comptime!(PIXELS));
        let mut rows = Array::<u32>::new(comptime!(PIXELS));
        let mut columns = Array::<u32>::new(comptime!(PIXELS));
        #[unroll]
        for pixel in 0..PIXELS {
            // Beyond the end the last one is computed, and not written.
            let own = min(first + comptime!(pixel as u32), pixels - 1);
            let place = place_of(own, &window);
            images[pixel] = place.image;
            rows[pixel] = place.row;
            columns[pixel] = place.column;
        }
        let mut sums = Array::<i32>::new(comptime!(4 * PIXELS));
        #[unroll]
        for lane in 0..4usize {
            let start = channels[(comptime!(lane as u32) * quads + quad) as usize];
            #[unroll]
            for pixel in 0..PIXELS {
                sums[comptime!(4 * pixel + lane)] = i32::reinterpret(start);
            }
        }

        let entries = window.kernel_rows * window.kernel_columns;
        let mut entry = 0u32.runtime();
        while entry < entries {
            let mut from = Array::<u32>::new(comptime!(PIXELS));
            let mut masks = Array::<u32>::new(comptime!(PIXELS));
            let mut fillings = Array::<u32>::new(comptime!(PIXELS));
            #[unroll]
            for pixel in 0..PIXELS {
                let at = pixel_at(images[pixel], rows[pixel], columns[pixel], entry, &window);
                let is_outside = at == OUTSIDE;
                from[pixel] = select(is_outside, 0u32, at * pitch + first_word);
                masks[pixel] = select(is_outside, 0u32.runtime(), 0xFFFF_FFFFu32);
                fillings[pixel] = select(is_outside, border, 0u32);
            }
            let mut word = 0u32.runtime();
            while word < words {
                let line = (entry * words + word) * 4u32 * quads + quad;
                let mut factors = Array::<i32>::new(comptime!(4usize));
                #[unroll]
                for lane in 0..4usize {
                    let four = weights[(line + comptime!(lane as u32) * quads) as usize];
                    factors[lane] = i32::reinterpret(four);
                }
                #[unroll]
                for pixel in 0..PIXELS {
                    let given = x[(from[pixel] + word) as usize];
                    let codes = (given & masks[pixel]) | fillings[pixel];
                    let codes = i32::reinterpret(codes ^ LOWER_BITS);
                    #[unroll]
                    for lane in 0..4usize {
                        let at = comptime!(4 * pixel + lane);
                        let sum = dp4a(codes, factors[lane], sums[at]);
                        sums[at] = sum;
                    }
                }
                word += 1u32;
            }
            entry += 1u32;
        }

        #[unroll]
        for pixel in 0..PIXELS {
            let own = first + comptime!(pixel as u32);
            if own < pixels {
                let place = own * quads + quad;
                if comptime!(writes == Writes::Sums) {
                    #[unroll]
                    for lane in 0..4usize {
                        let sum = u32::reinterpret(sums[comptime!(4 * pixel + lane)]);
                        y[(place * 4u32 + comptime!(lane as u32)) as usize] = sum;
                    }
                } else {
                    let is_summed = comptime!(writes == Writes::Summed);
                    let mut added = 0u32.runtime();
                    if comptime!(is_summed) {
                        added = others[place as usize];
                    }
                    let mut codes = 0u32.runtime();
                    #[unroll]
                    for lane in 0..4usize {
                        let at = comptime!(4 + lane as u32) * quads + quad;
                        let factor = channels[at as usize];
                        let sum = sums[comptime!(4 * pixel + lane)];
                        let byte = comptime!(lane as u32);
                        codes |= finished(sum, factor, added, &plus, &bounds, is_summed, byte);
                    }
                    y[place as usize] = codes;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::packed;
    use super::super::on_devices::{bytes, computed, on_each, weights_of};
    use super::*;
    use crate::kernels::reference;

    /// Compares a convolution, alone and with added codes, with the integer reference.
    fn check(client: &Client, shape: ConvShape, zero: u8) {
        let geometry = ConvGeometry::try_new(shape).expect("a valid shape");
        let input = ActivationScheme::try_new(0.02, zero).expect("valid");
        let [inputs, outputs] = shape.channels;
        let weights = weights_of(geometry.weight_len(), outputs, input);
        let scheme = ActivationScheme::try_new(0.11, 40).expect("valid");
        let output = OutputScheme::clipped(scheme, -2.0, 20.0);
        let x = bytes(1, geometry.input_len());
        let [rows, columns] = geometry.output();
        let sizes = [rows * columns, outputs];
        let sums =
            reference::convolution_sums(&geometry, &x, zero, weights.values(), weights.bias());
        let scale = |at: usize| f64::from(0.02_f32) * f64::from(weights.scales()[at % outputs]);
        let right: Vec<u8> = sums
            .iter()
            .enumerate()
            .map(|(at, &sum)| reference::code(sum, scale(at), output))
            .collect();
        let kernel = CubeConvolution::try_new(client, &geometry, &weights, output, None);
        let kernel = kernel.expect("a kernel");
        let y = computed(client, &kernel, &[(&x, inputs)], sizes, shape.batch);
        assert_eq!(y, right, "{shape:?}, zero {zero}");

        let other = ActivationScheme::try_new(0.3, 77).expect("valid");
        let codes = bytes(3, geometry.output_len());
        let right: Vec<u8> = sums
            .iter()
            .zip(&codes)
            .enumerate()
            .map(|(at, (&sum, &code))| reference::code_plus(sum, scale(at), code, other, output))
            .collect();
        let kernel = CubeConvolution::try_new(client, &geometry, &weights, output, Some(other));
        let kernel = kernel.expect("a kernel");
        let x: [(&[u8], usize); 2] = [(&x, inputs), (&codes, outputs)];
        let y = computed(client, &kernel, &x, sizes, shape.batch);
        assert_eq!(y, right, "{shape:?} plus a tensor, zero {zero}");
    }

    #[test]
    fn windows_of_any_shape_are_exact_with_the_zero_point_at_the_border() {
        let of = |batch, channels, input, kernel| ConvShape::new(batch, channels, input, kernel);
        let shapes = [
            of(1, [1, 1], [1, 1], [1, 1]),
            of(3, [5, 7], [3, 4], [1, 1]),
            ConvShape { padding: [1, 1], ..of(2, [3, 9], [7, 5], [3, 3]) },
            ConvShape { padding: [2, 1], stride: [2, 3], ..of(2, [6, 4], [9, 8], [5, 3]) },
            ConvShape { padding: [2, 2], dilation: [2, 3], ..of(1, [4, 5], [6, 9], [3, 2]) },
            ConvShape { padding: [0, 2], ..of(2, [9, 3], [1, 11], [1, 5]) },
            // Groups that end within words, and more outputs than inputs.
            ConvShape { padding: [1, 1], groups: 3, ..of(2, [9, 6], [4, 5], [3, 3]) },
            ConvShape { padding: [1, 1], groups: 5, ..of(1, [5, 10], [4, 4], [3, 3]) },
            ConvShape { groups: 4, ..of(2, [16, 32], [3, 3], [2, 2]) },
            ConvShape { groups: 2, ..of(1, [26, 2], [3, 3], [1, 1]) },
        ];
        on_each(|client| {
            for shape in shapes {
                check(client, shape, 117);
                check(client, shape, 0);
            }
            check(client, shapes[2], 255);
        });
    }

    #[test]
    fn the_furthest_codes_saturate_as_on_the_cpu() {
        let input = ActivationScheme::try_new(1.0, 0).expect("valid");
        let shape = ConvShape::new(1, [500, 8], [1, 2], [1, 1]);
        let geometry = ConvGeometry::try_new(shape).expect("valid");
        let x = [vec![255; 500], vec![0; 500]].concat();
        for (weight, step) in [(127, 1.0), (-128, 1.0), (127, 1e6), (-128, 7e4)] {
            let values = vec![weight; 4000];
            let weights = QuantizedWeights::try_new(values, vec![1.0; 8], vec![5; 8], input);
            let weights = weights.expect("sums fit");
            let output = OutputScheme::new(ActivationScheme::try_new(step, 130).expect("valid"));
            let sums =
                reference::convolution_sums(&geometry, &x, 0, weights.values(), weights.bias());
            let right: Vec<u8> =
                sums.iter().map(|&sum| reference::code(sum, 1.0, output)).collect();
            on_each(|client| {
                let kernel = CubeConvolution::try_new(client, &geometry, &weights, output, None);
                let kernel = kernel.expect("a kernel");
                let y = computed(client, &kernel, &[(&x, 500)], [2, 8], 1);
                assert_eq!(y, right, "{weight}, {step}");
            });
        }
    }

    #[test]
    fn sums_of_products_over_pixels_are_those_of_the_reference() {
        let input = ActivationScheme::try_new(0.02, 9).expect("valid");
        let output = OutputScheme::new(input);
        for (samples, channels, pixels, outputs) in
            [(1, 1, 1, 1), (5, 13, 1, 6), (3, 5, 4, 9), (2, 8, 3, 4)]
        {
            let weights = weights_of(outputs * channels * pixels, outputs, input);
            let x = bytes(1, samples * pixels * channels);
            // The reference takes the weights in the order of the codes.
            let each = channels * pixels;
            let turned: Vec<i8> = (0..outputs * each)
                .map(|at| {
                    let (pixel, channel) = (at % each / channels, at % channels);
                    weights.values()[at / each * each + channel * pixels + pixel]
                })
                .collect();
            let right = reference::linear_sums(&x, 9, &turned, weights.bias());
            on_each(|client| {
                let kernel = CubeConvolution::try_product(client, channels, &weights, output);
                let kernel = kernel.expect("a kernel");
                let x = Words::upload(client, &packed(&x, channels));
                let y = Words::empty(client, samples * kernel.sum_words());
                kernel.run_sums(client, &x, &y, samples);
                let y = y.read(client).expect("the device works");
                let each = kernel.sum_words();
                for (at, &sum) in right.iter().enumerate() {
                    let given = y[at / outputs * each + at % outputs] as i32;
                    assert_eq!(i64::from(given), sum, "{samples}×{channels}×{pixels}×{outputs}");
                }
            });
        }
    }
}
