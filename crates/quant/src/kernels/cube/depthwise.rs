//! Depthwise convolutions: each channel times weights of its own.
//!
//! A unit computes four channels of four neighboring pixels.

use cubecl::prelude::*;
use updraft_conv::slices::ConvGeometry;

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

/// A depthwise convolution with its weights on a device.
#[derive(Debug)]
pub(crate) struct CubeDepthwise {
    sizes: WindowSizes,
    /// `[entries, quads]`: a weight of each of four channels.
    weights: Words,
    /// Starts and factors: `[8][quads]`.
    channels: Words,
    quads: usize,
    /// Four codes of zero, for the padding.
    border: u32,
    output: OutputScheme,
    plus: Option<(i32, u32)>,
}

impl CubeDepthwise {
    /// Copies the weights `[channels, 1, rows, columns]` to a device; the geometry's batch is ignored.
    /// Codes of a scheme may be added to the sums before they are rounded.
    pub(crate) fn try_new(
        client: &Client,
        geometry: &ConvGeometry,
        weights: &QuantizedWeights,
        output: OutputScheme,
        addend: Option<ActivationScheme>,
    ) -> Result<Self, DeviceReason> {
        let OfChannels { words: channels, plus, .. } =
            OfChannels::try_new(weights, output, 0, addend)?;
        let (quads, entries) = (words_of(weights.channels()), weights.each());
        let mut packed = Vec::with_capacity(entries * quads);
        for entry in 0..entries {
            for quad in 0..quads {
                let value = |lane: usize| weights.values().get((4 * quad + lane) * entries + entry);
                let bytes: [u8; 4] =
                    std::array::from_fn(|lane| value(lane).copied().unwrap_or(0) as u8);
                packed.push(u32::from_le_bytes(bytes));
            }
        }
        Ok(Self {
            sizes: WindowSizes::new(geometry),
            weights: Words::upload(client, &packed),
            channels: Words::upload(client, &channels),
            quads,
            border: u32::from_le_bytes([weights.input().zero_point(); 4]),
            output,
            plus,
        })
    }
}

impl DeviceKernel for CubeDepthwise {
    fn run(&self, client: &Client, x: &[&Words], y: &Words, samples: usize) {
        let pixels = samples * self.sizes.pixels();
        let is_summed = self.plus.is_some();
        sums_of_channels::launch(
            client,
            cubes(pixels.div_ceil(PIXELS) * self.quads),
            units(),
            AddressType::U32,
            x[0].arg(),
            self.weights.arg(),
            self.channels.arg(),
            x[usize::from(is_summed)].arg(),
            y.arg(),
            self.sizes.arg(),
            bounds(self.output),
            plus(self.plus.unwrap_or_default()),
            pixels as u32,
            self.quads as u32,
            self.border,
            is_summed,
        );
    }
}

#[cube(launch, address_type = "dynamic")]
fn sums_of_channels(
    x: &[u32],
    weights: &[u32],
    channels: &[u32],
    others: &[u32],
    y: &mut [u32],
    window: Window,
    bounds: Bounds,
    plus: Plus,
    pixels: u32,
    quads: u32,
    border: u32,
    #[comptime] is_summed: bool,
) {
    let index = unit_index();
    let quad = index % quads;
    let first = index / quads * comptime!(PIXELS as u32);
    if first < pixels {
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
            let four = weights[(entry * quads + quad) as usize];
            let mut factors = Array::<i32>::new(comptime!(4usize));
            #[unroll]
            for lane in 0..4usize {
                let byte = (four >> comptime!(8 * lane as u32)) & 255u32;
                factors[lane] = i32::cast_from(byte ^ 128u32) - 128i32;
            }
            #[unroll]
            for pixel in 0..PIXELS {
                let at = pixel_at(images[pixel], rows[pixel], columns[pixel], entry, &window);
                let is_outside = at == OUTSIDE;
                let given = x[(select(is_outside, 0u32, at) * quads + quad) as usize];
                let codes = select(is_outside, border, given);
                #[unroll]
                for lane in 0..4usize {
                    let code = i32::cast_from((codes >> comptime!(8 * lane as u32)) & 255u32);
                    let at = comptime!(4 * pixel + lane);
                    let sum = sums[at] + code * factors[lane];
                    sums[at] = sum;
                }
            }
            entry += 1u32;
        }

        #[unroll]
        for pixel in 0..PIXELS {
            let own = first + comptime!(pixel as u32);
            if own < pixels {
                let place = own * quads + quad;
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

#[cfg(test)]
mod tests {
    use updraft_conv::slices::ConvShape;

    use super::super::on_devices::{bytes, computed, on_each, weights_of};
    use super::*;
    use crate::kernels::reference;

    #[test]
    fn every_channel_has_the_sums_of_the_reference() {
        let of = |batch, channels, input, kernel| ConvShape {
            groups: channels,
            ..ConvShape::new(batch, [channels; 2], input, kernel)
        };
        let shapes = [
            of(1, 1, [1, 1], [1, 1]),
            ConvShape { padding: [1, 1], ..of(2, 9, [5, 7], [3, 3]) },
            ConvShape { padding: [2, 1], stride: [2, 3], ..of(2, 6, [9, 8], [5, 3]) },
            ConvShape { padding: [2, 2], dilation: [2, 3], ..of(1, 4, [6, 9], [3, 2]) },
        ];
        let other = ActivationScheme::try_new(0.3, 77).expect("valid");
        let output = ActivationScheme::try_new(0.11, 40).expect("valid");
        let output = OutputScheme::clipped(output, -2.0, 20.0);
        for (shape, zero) in shapes.into_iter().flat_map(|shape| [(shape, 117), (shape, 255)]) {
            let geometry = ConvGeometry::try_new(shape).expect("a valid shape");
            let channels = shape.channels[0];
            let input = ActivationScheme::try_new(0.02, zero).expect("valid");
            let weights = weights_of(geometry.weight_len(), channels, input);
            let x = bytes(1, geometry.input_len());
            let codes = bytes(3, geometry.output_len());
            let sums =
                reference::convolution_sums(&geometry, &x, zero, weights.values(), weights.bias());
            let scale =
                |at: usize| f64::from(0.02_f32) * f64::from(weights.scales()[at % channels]);
            let [rows, columns] = geometry.output();
            let run = |client: &Client, addend: Option<ActivationScheme>| {
                let kernel = CubeDepthwise::try_new(client, &geometry, &weights, output, addend);
                let kernel = kernel.expect("a kernel");
                let x: [(&[u8], usize); 2] = [(&x, channels), (&codes, channels)];
                computed(client, &kernel, &x, [rows * columns, channels], shape.batch)
            };
            on_each(|client| {
                let (alone, summed) = (run(client, None), run(client, Some(other)));
                for (at, &sum) in sums.iter().enumerate() {
                    let right = reference::code(sum, scale(at), output);
                    assert_eq!(alone[at], right, "{shape:?}, zero {zero}, at {at}");
                    let right = reference::code_plus(sum, scale(at), codes[at], other, output);
                    assert_eq!(summed[at], right, "{shape:?} plus a tensor, at {at}");
                }
            });
        }
    }
}
