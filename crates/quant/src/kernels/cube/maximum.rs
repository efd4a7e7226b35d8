//! The greatest code of each window, channel by channel.

use cubecl::prelude::*;
use updraft_conv::slices::ConvGeometry;

use super::device_kernel::DeviceKernel;
use super::layout::words_of;
use super::tiles::{cubes, unit_index, units};
use super::window::{OUTSIDE, Window, WindowSizes, pixel_at, place_of};
use super::words::Words;

/// The maximum of windows; padding is ignored.
#[derive(Debug)]
pub(crate) struct CubeMaximum {
    sizes: WindowSizes,
    words: usize,
}

impl CubeMaximum {
    /// Windows as of a depthwise convolution; the geometry's batch is ignored.
    pub(crate) fn new(geometry: &ConvGeometry) -> Self {
        let [channels, _] = geometry.shape().channels;
        Self { sizes: WindowSizes::new(geometry), words: words_of(channels) }
    }
}

impl DeviceKernel for CubeMaximum {
    fn run(&self, client: &Client, x: &[&Words], y: &Words, samples: usize) {
        let all = samples * self.sizes.pixels() * self.words;
        maxima_of_windows::launch(
            client,
            cubes(all),
            units(),
            AddressType::U32,
            x[0].arg(),
            y.arg(),
            self.sizes.arg(),
            all as u32,
            self.words as u32,
        );
    }
}

#[cube(launch, address_type = "dynamic")]
fn maxima_of_windows(x: &[u32], y: &mut [u32], window: Window, all: u32, words: u32) {
    let index = unit_index();
    if index < all {
        let word = index % words;
        let place = place_of(index / words, &window);
        let mut most = Array::<u32>::new(comptime!(4usize));
        #[unroll]
        for lane in 0..4usize {
            most[lane] = 0u32;
        }
        let entries = window.kernel_rows * window.kernel_columns;
        let mut entry = 0u32.runtime();
        while entry < entries {
            let at = pixel_at(place.image, place.row, place.column, entry, &window);
            if at != OUTSIDE {
                let codes = x[(at * words + word) as usize];
                #[unroll]
                for lane in 0..4usize {
                    let code = (codes >> comptime!(8 * lane as u32)) & 255u32;
                    let greater = max(most[lane], code);
                    most[lane] = greater;
                }
            }
            entry += 1u32;
        }
        let mut codes = 0u32.runtime();
        #[unroll]
        for lane in 0..4usize {
            codes |= most[lane] << comptime!(8 * lane as u32);
        }
        y[index as usize] = codes;
    }
}

#[cfg(test)]
mod tests {
    use updraft_conv::slices::ConvShape;

    use super::super::on_devices::{bytes, computed, on_each};
    use super::*;

    #[test]
    fn maxima_are_those_of_the_codes_in_each_window() {
        let of = |channels, kernel| ConvShape {
            groups: channels,
            ..ConvShape::new(2, [channels; 2], [7, 9], kernel)
        };
        for shape in [
            of(1, [3, 2]),
            ConvShape { stride: [2, 3], padding: [1, 1], ..of(5, [3, 2]) },
            ConvShape { dilation: [2, 3], padding: [1, 0], ..of(21, [3, 2]) },
            of(8, [7, 9]),
        ] {
            let geometry = ConvGeometry::try_new(shape).expect("a valid shape");
            let x = bytes(1, geometry.input_len());
            let ([rows, columns], channels) = (geometry.output(), shape.channels[0]);
            let right = |at: usize| {
                let (channel, pixel) = (at % channels, at / channels);
                let (sample, within) = (pixel / (rows * columns), pixel % (rows * columns));
                let own = [within / columns, within % columns];
                let entries = shape.kernel[0] * shape.kernel[1];
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
                (0..entries).filter_map(code).max().expect("a window has a pixel")
            };
            on_each(|client| {
                let kernel = CubeMaximum::new(&geometry);
                let sizes = [rows * columns, channels];
                let y = computed(client, &kernel, &[(&x, channels)], sizes, 2);
                let right: Vec<u8> = (0..y.len()).map(&right).collect();
                assert_eq!(y, right, "{shape:?}");
            });
        }
    }
}
