//! The mean of each window, channel by channel.

use cubecl::prelude::*;
use updraft_conv::slices::ConvGeometry;

use super::device_kernel::DeviceKernel;
use super::layout::words_of;
use super::reason::DeviceReason;
use super::rounding::{Bounds, bounds, code, factor_bits, multiplied};
use super::tiles::{cubes, unit_index, units};
use super::window::{OUTSIDE, Window, WindowSizes, pixel_at, place_of};
use super::words::Words;
use crate::kernels::Pooling;
use crate::scheme::{ActivationScheme, OutputScheme};

/// The mean of windows: of their pixels in the image, or with padding as zeros.
#[derive(Debug)]
pub(crate) struct CubeMean {
    sizes: WindowSizes,
    words: usize,
    zero: i32,
    output: OutputScheme,
    /// The bits of the factor for each number of pixels in the image.
    factors: Words,
}

impl CubeMean {
    /// Windows as of a depthwise convolution; the geometry's batch is ignored.
    pub(crate) fn try_new(
        client: &Client,
        geometry: &ConvGeometry,
        pooling: Pooling,
        input: ActivationScheme,
        output: OutputScheme,
    ) -> Result<Self, DeviceReason> {
        let sizes = WindowSizes::new(geometry);
        let ratio = f64::from(input.scale()) / f64::from(output.scheme().scale());
        let factor = |pixels: usize| {
            let count = match pooling {
                Pooling::MeanWithPadding => sizes.entries(),
                Pooling::MeanOfImage | Pooling::Maximum => pixels.max(1),
            };
            factor_bits((ratio / count as f64) as f32)
        };
        let factors = (0..=sizes.entries()).map(factor).collect::<Result<Vec<u32>, _>>()?;
        let [channels, _] = geometry.shape().channels;
        Ok(Self {
            sizes,
            words: words_of(channels),
            zero: input.zero_point().into(),
            output,
            factors: Words::upload(client, &factors),
        })
    }
}

impl DeviceKernel for CubeMean {
    fn run(&self, client: &Client, x: &[&Words], y: &Words, samples: usize) {
        let all = samples * self.sizes.pixels() * self.words;
        means_of_windows::launch(
            client,
            cubes(all),
            units(),
            AddressType::U32,
            x[0].arg(),
            self.factors.arg(),
            y.arg(),
            self.sizes.arg(),
            bounds(self.output),
            all as u32,
            self.words as u32,
            self.zero,
        );
    }
}

#[cube(launch, address_type = "dynamic")]
fn means_of_windows(
    x: &[u32],
    factors: &[u32],
    y: &mut [u32],
    window: Window,
    bounds: Bounds,
    all: u32,
    words: u32,
    zero: i32,
) {
    let index = unit_index();
    if index < all {
        let word = index % words;
        let place = place_of(index / words, &window);
        let mut sums = Array::<u32>::new(comptime!(4usize));
        #[unroll]
        for lane in 0..4usize {
            sums[lane] = 0u32;
        }
        let mut pixels = 0u32.runtime();
        let entries = window.kernel_rows * window.kernel_columns;
        let mut entry = 0u32.runtime();
        while entry < entries {
            let at = pixel_at(place.image, place.row, place.column, entry, &window);
            if at != OUTSIDE {
                let codes = x[(at * words + word) as usize];
                #[unroll]
                for lane in 0..4usize {
                    let sum = sums[lane] + ((codes >> comptime!(8 * lane as u32)) & 255u32);
                    sums[lane] = sum;
                }
                pixels += 1u32;
            }
            entry += 1u32;
        }
        let factor = factors[pixels as usize];
        let zeros = i32::cast_from(pixels) * zero;
        let mut codes = 0u32.runtime();
        #[unroll]
        for lane in 0..4usize {
            let mean = multiplied(i32::cast_from(sums[lane]) - zeros, factor);
            codes |= code(mean, &bounds) << comptime!(8 * lane as u32);
        }
        y[index as usize] = codes;
    }
}

#[cfg(test)]
mod tests {
    use updraft_conv::slices::ConvShape;

    use super::super::on_devices::{bytes, computed, on_each};
    use super::*;
    use crate::kernels::reference;

    #[test]
    fn means_are_those_of_the_reference_in_each_window() {
        let input = ActivationScheme::try_new(0.1, 30).expect("valid");
        let other = ActivationScheme::try_new(0.07, 128).expect("valid");
        let of = |channels, kernel| ConvShape {
            groups: channels,
            ..ConvShape::new(2, [channels; 2], [7, 9], kernel)
        };
        let shapes = [
            of(1, [3, 2]),
            ConvShape { stride: [2, 3], padding: [1, 1], ..of(5, [3, 2]) },
            ConvShape { dilation: [2, 3], padding: [1, 0], ..of(21, [3, 2]) },
            of(8, [7, 9]),
        ];
        let poolings = [
            (Pooling::MeanOfImage, OutputScheme::new(input)),
            (Pooling::MeanOfImage, OutputScheme::rectified(other)),
            (Pooling::MeanWithPadding, OutputScheme::new(other)),
        ];
        for (shape, (pooling, output)) in
            shapes.into_iter().flat_map(|shape| poolings.map(|pooling| (shape, pooling)))
        {
            let geometry = ConvGeometry::try_new(shape).expect("a valid shape");
            let x = bytes(1, geometry.input_len());
            let ([rows, columns], channels) = (geometry.output(), shape.channels[0]);
            let entries = shape.kernel[0] * shape.kernel[1];
            let right = |at: usize| {
                let (channel, pixel) = (at % channels, at / channels);
                let (sample, within) = (pixel / (rows * columns), pixel % (rows * columns));
                let own = [within / columns, within % columns];
                let code = |entry: usize| {
                    let entry = [entry / shape.kernel[1], entry % shape.kernel[1]];
                    let [row, column] = [0, 1].map(|axis| {
                        let place =
                            own[axis] * shape.stride[axis] + entry[axis] * shape.dilation[axis];
                        place.checked_sub(shape.padding[axis])
                    });
                    let (row, column) = (row?, column?);
                    let at = (sample * 7 + row) * 9 + column;
                    (row < 7 && column < 9).then(|| x[at * channels + channel])
                };
                let codes: Vec<u8> = (0..entries).filter_map(code).collect();
                let count = match pooling {
                    Pooling::MeanWithPadding => entries,
                    _ => codes.len(),
                };
                reference::mean(&codes, count, input, output)
            };
            on_each(|client| {
                let kernel = CubeMean::try_new(client, &geometry, pooling, input, output);
                let kernel = kernel.expect("a kernel");
                let sizes = [rows * columns, channels];
                let y = computed(client, &kernel, &[(&x, channels)], sizes, 2);
                let right: Vec<u8> = (0..y.len()).map(&right).collect();
                assert_eq!(y, right, "{pooling:?} {shape:?}");
            });
        }
    }
}
