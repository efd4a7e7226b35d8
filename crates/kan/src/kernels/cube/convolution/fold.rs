//! The gradient of images from those of their patches.

use cubecl::prelude::*;

use super::hit::output_of_tap;
use super::images::{ConvImages, ImageSizes, Window, input_pixel_of};
use super::rows::Rows;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube_cost::convolution::UNITS;

/// Adds the gradients of some rows' patches, `[rows.count, rows.channels · taps]`, to those of the
/// images, `[batch, channels, ...]`: pixels of an image that begins with one of these rows are
/// written. Parts of the rows have to follow each other.
pub(crate) fn fold(
    client: &Client,
    images: ConvImages,
    rows: Rows,
    of_patches: BufferArg,
    dx: BufferArg,
) {
    let (first_image, count) = images.of_rows(rows.first, rows.count);
    let of_image = rows.channels as usize * images.in_pixels() as usize;
    let all = u32::try_from(count as usize * of_image).expect("at most 2^32 numbers of images");
    let patches = rows.count as usize * (rows.channels * images.window.taps()) as usize;
    images_of_patches::launch(
        client,
        cubes(1, all.div_ceil(UNITS) as usize),
        CubeDim::new_1d(UNITS),
        images.address.max(AddressType::from_len(patches)),
        of_patches,
        dx,
        images.sizes(rows),
        rows.count,
        first_image,
        rows.channels,
        all,
        images.window,
    );
}

#[cube(launch, address_type = "dynamic")]
fn images_of_patches(
    of_patches: &[f32],
    dx: &mut [f32],
    sizes: ImageSizes,
    rows: u32,
    first_image: u32,
    channels: u32,
    all: u32,
    #[comptime] window: Window,
) {
    let at = cube_along() * UNITS + UNIT_POS_X;
    if at < all {
        let of_channel = sizes.depth * sizes.height * sizes.width;
        let channel = at / of_channel % channels;
        let image = first_image + at / of_channel / channels;
        let first = image as usize * sizes.channels as usize;
        let plane = first + (sizes.first_channel + channel) as usize;
        let place = plane * of_channel as usize + (at % of_channel) as usize;
        let pixel = input_pixel_of(image * of_channel + at % of_channel, &sizes);
        let start = image * sizes.out_depth * sizes.out_height * sizes.out_width;
        let inputs = channels * comptime!(window.taps());

        let mut sum = 0.0f32;
        if start < sizes.first_row {
            sum = dx[place];
        }
        for tap in 0..comptime!(window.taps()) {
            let hit = output_of_tap(&pixel, tap, &sizes, window);
            let is_of_part = hit.row >= sizes.first_row && hit.row < sizes.first_row + rows;
            if hit.is_there && is_of_part {
                let input = channel * comptime!(window.taps()) + tap;
                let line = (hit.row - sizes.first_row) as usize * inputs as usize;
                sum += of_patches[line + input as usize];
            }
        }
        dx[place] = sum;
    }
}
