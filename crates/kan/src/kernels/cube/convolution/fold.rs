//! The gradient of images from those of their patches.

use cubecl::prelude::*;

use super::images::{ConvImages, ImageSizes, Window};
use super::patches::UNITS;
use super::rows::Rows;
use crate::kernels::cube::tiles::{cube_along, cubes};

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
        images.sizes(),
        rows.first,
        rows.count,
        first_image,
        rows.group * rows.channels,
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
    first_row: u32,
    rows: u32,
    first_image: u32,
    first_channel: u32,
    channels: u32,
    all: u32,
    #[comptime] window: Window,
) {
    let at = cube_along() * UNITS + UNIT_POS_X;
    if at < all {
        let of_plane = sizes.height * sizes.width;
        let of_channel = sizes.depth * of_plane;
        let pixel = at % of_channel;
        let channel = at / of_channel % channels;
        let image = first_image + at / of_channel / channels;
        let plane = (image * sizes.channels + first_channel + channel) as usize;
        let place = plane * of_channel as usize + pixel as usize;
        let pad_z = comptime!(window.padding[0]);
        let pad_y = comptime!(window.padding[1]);
        let pad_x = comptime!(window.padding[2]);
        let stride_z = comptime!(window.stride[0]);
        let stride_y = comptime!(window.stride[1]);
        let stride_x = comptime!(window.stride[2]);
        let taps_y = comptime!(window.kernel[1]);
        let taps_x = comptime!(window.kernel[2]);
        // Counted from the start of the padding.
        let z = pixel / of_plane + pad_z;
        let y = pixel % of_plane / sizes.width + pad_y;
        let x = pixel % sizes.width + pad_x;
        let of_output = sizes.out_height * sizes.out_width;
        let start = image * sizes.out_depth * of_output;
        let inputs = channels * comptime!(window.taps());

        let mut sum = 0.0f32;
        if start < first_row {
            sum = dx[place];
        }
        for tap in 0..comptime!(window.taps()) {
            let from_z = tap / (taps_y * taps_x) * comptime!(window.dilation[0]);
            let from_y = tap / taps_x % taps_y * comptime!(window.dilation[1]);
            let from_x = tap % taps_x * comptime!(window.dilation[2]);
            if z >= from_z && y >= from_y && x >= from_x {
                let (far_z, far_y, far_x) = (z - from_z, y - from_y, x - from_x);
                let (out_z, out_y, out_x) = (far_z / stride_z, far_y / stride_y, far_x / stride_x);
                let is_hit = out_z * stride_z == far_z
                    && out_y * stride_y == far_y
                    && out_x * stride_x == far_x;
                let is_output =
                    out_z < sizes.out_depth && out_y < sizes.out_height && out_x < sizes.out_width;
                if is_hit && is_output {
                    let row = start + out_z * of_output + out_y * sizes.out_width + out_x;
                    if row >= first_row && row < first_row + rows {
                        let input = channel * comptime!(window.taps()) + tap;
                        let line = (row - first_row) as usize * inputs as usize;
                        sum += of_patches[line + input as usize];
                    }
                }
            }
        }
        dx[place] = sum;
    }
}
