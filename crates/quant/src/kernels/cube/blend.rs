//! Linear interpolation of images to another size.

use cubecl::prelude::*;

use super::device_kernel::DeviceKernel;
use super::layout::words_of;
use super::reason::DeviceReason;
use super::rounding::{Bounds, bounds, code, factor_bits, multiplied};
use super::tiles::{cubes, unit_index, units};
use super::words::Words;
use crate::kernels::resize::{QuantizedResize, Source};
use crate::scheme::OutputScheme;

/// Images whose pixels are between four of the input, on a device.
#[derive(Debug)]
pub(crate) struct CubeBlend {
    /// Of each row, then of each column: two positions and their weights.
    sources: Words,
    from: [usize; 2],
    to: [usize; 2],
    words: usize,
    offset: i32,
    factor: u32,
    output: OutputScheme,
}

impl CubeBlend {
    /// The same as a kernel for CPUs that does not take the nearest pixel.
    pub(crate) fn try_new(
        client: &Client,
        resize: &QuantizedResize,
        channels: usize,
        output: OutputScheme,
    ) -> Result<Self, DeviceReason> {
        let [rows, columns] = resize.sources();
        let words = |&([first, second], [of_first, of_second]): &Source| {
            [first as u32, second as u32, of_first as u32, of_second as u32]
        };
        let sources: Vec<u32> = rows.iter().chain(columns).flat_map(words).collect();
        let [from, to] = resize.sides();
        let (offset, factor) = resize.line();
        Ok(Self {
            sources: Words::upload(client, &sources),
            from,
            to,
            words: words_of(channels),
            offset,
            factor: factor_bits(factor)?,
            output,
        })
    }
}

impl DeviceKernel for CubeBlend {
    fn run(&self, client: &Client, x: &[&Words], y: &Words, samples: usize) {
        let all = samples * self.to[0] * self.to[1] * self.words;
        blends_of_pixels::launch(
            client,
            cubes(all),
            units(),
            AddressType::U32,
            x[0].arg(),
            self.sources.arg(),
            y.arg(),
            bounds(self.output),
            all as u32,
            self.words as u32,
            (self.from[0] * self.from[1]) as u32,
            self.from[1] as u32,
            self.to[0] as u32,
            self.to[1] as u32,
            self.offset,
            self.factor,
        );
    }
}

#[cube(launch, address_type = "dynamic")]
fn blends_of_pixels(
    x: &[u32],
    sources: &[u32],
    y: &mut [u32],
    bounds: Bounds,
    all: u32,
    words: u32,
    pixels: u32,
    width: u32,
    rows: u32,
    columns: u32,
    offset: i32,
    factor: u32,
) {
    let index = unit_index();
    if index < all {
        let (word, pixel) = (index % words, index / words);
        let (column, line) = (pixel % columns, pixel / columns);
        let (row, image) = (line % rows, line / rows);
        let mut sums = Array::<i32>::new(comptime!(4usize));
        #[unroll]
        for lane in 0..4usize {
            sums[lane] = offset;
        }
        #[unroll]
        for corner in 0..4u32 {
            let of_row = row * 4u32 + comptime!(corner / 2);
            let of_column = (rows + column) * 4u32 + comptime!(corner % 2);
            let at = sources[of_row as usize] * width + sources[of_column as usize];
            let weight = sources[(of_row + 2u32) as usize] * sources[(of_column + 2u32) as usize];
            let codes = x[((image * pixels + at) * words + word) as usize];
            #[unroll]
            for lane in 0..4usize {
                let code = (codes >> comptime!(8 * lane as u32)) & 255u32;
                let sum = sums[lane] + i32::cast_from(code * weight);
                sums[lane] = sum;
            }
        }
        let mut codes = 0u32.runtime();
        #[unroll]
        for lane in 0..4usize {
            let blended = multiplied(sums[lane], factor);
            codes |= code(blended, &bounds) << comptime!(8 * lane as u32);
        }
        y[index as usize] = codes;
    }
}

#[cfg(test)]
mod tests {
    use super::super::on_devices::{bytes, computed, on_each};
    use super::*;
    use crate::kernels::{Isa, Resizing, Scratch};
    use crate::scheme::ActivationScheme;

    #[test]
    fn every_pixel_is_the_integer_sum_of_the_kernel_for_cpus() {
        let scheme = |scale, zero| ActivationScheme::try_new(scale, zero).expect("valid");
        let output = OutputScheme::rectified(scheme(0.07, 128));
        for resizing in [Resizing::Linear, Resizing::LinearCorners] {
            for (from, to) in [([3, 4], [6, 8]), ([5, 7], [8, 3]), ([1, 2], [4, 1])] {
                for channels in [1, 21] {
                    let shape = [channels, from[0], from[1]];
                    let resize = QuantizedResize::new(shape, to, resizing, scheme(0.1, 30), output);
                    let x = bytes(1, 2 * from[0] * from[1] * channels);
                    let mut right = vec![0; 2 * to[0] * to[1] * channels];
                    resize.run(Isa::Portable, &x, &mut right, &mut Scratch::new(), 1);
                    on_each(|client| {
                        let kernel = CubeBlend::try_new(client, &resize, channels, output);
                        let kernel = kernel.expect("a kernel");
                        let sizes = [to[0] * to[1], channels];
                        let y = computed(client, &kernel, &[(&x, channels)], sizes, 2);
                        assert_eq!(y, right, "{resizing:?} {from:?} {to:?} {channels}");
                    });
                }
            }
        }
    }
}
