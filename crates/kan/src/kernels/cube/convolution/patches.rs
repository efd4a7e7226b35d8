//! The patches of images.

use cubecl::prelude::*;

use super::images::{ConvImages, ImageSizes, Pixel, Window, pixel_of};
use super::rows::Rows;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube_cost::convolution::UNITS;

/// Writes the patches of some rows, `[rows.count, rows.channels · taps]`, of images `[batch,
/// channels, ...]`, with zeros around the images.
pub(crate) fn gather_patches(
    client: &Client,
    images: ConvImages,
    rows: Rows,
    x: BufferArg,
    patches: BufferArg,
) {
    let inputs = rows.channels * images.window.taps();
    let all = rows.count * inputs;
    patches_of_images::launch(
        client,
        cubes(1, all.div_ceil(UNITS) as usize),
        CubeDim::new_1d(UNITS),
        images.address.max(AddressType::from_len(all as usize)),
        x,
        patches,
        images.sizes(rows),
        inputs,
        all,
        images.window,
    );
}

#[cube(launch, address_type = "dynamic")]
fn patches_of_images(
    x: &[f32],
    patches: &mut [f32],
    sizes: ImageSizes,
    inputs: u32,
    all: u32,
    #[comptime] window: Window,
) {
    let at = cube_along() * UNITS + UNIT_POS_X;
    if at < all {
        let pixel = pixel_of(sizes.first_row + at / inputs, &sizes);
        patches[at as usize] = number_of_patch(x, &pixel, at % inputs, &sizes, window);
    }
}

/// Number `input` of the patch that an output's pixel sees of the group's channels.
#[cube]
pub(super) fn number_of_patch(
    x: &[f32],
    pixel: &Pixel,
    input: u32,
    sizes: &ImageSizes,
    #[comptime] window: Window,
) -> f32 {
    let channel = sizes.first_channel + input / comptime!(window.taps());
    let tap = input % comptime!(window.taps());
    let taps_y = comptime!(window.kernel[1]);
    let taps_x = comptime!(window.kernel[2]);
    let tap_z = tap / (taps_y * taps_x);
    let tap_y = tap / taps_x % taps_y;
    let tap_x = tap % taps_x;
    // Counted from the start of the padding.
    let z = pixel.z * comptime!(window.stride[0]) + tap_z * comptime!(window.dilation[0]);
    let y = pixel.y * comptime!(window.stride[1]) + tap_y * comptime!(window.dilation[1]);
    let x_at = pixel.x * comptime!(window.stride[2]) + tap_x * comptime!(window.dilation[2]);
    let pad_z = comptime!(window.padding[0]);
    let pad_y = comptime!(window.padding[1]);
    let pad_x = comptime!(window.padding[2]);
    let mut number = 0.0f32;
    if z >= pad_z
        && z < pad_z + sizes.depth
        && y >= pad_y
        && y < pad_y + sizes.height
        && x_at >= pad_x
        && x_at < pad_x + sizes.width
    {
        let plane = pixel.image as usize * sizes.channels as usize + channel as usize;
        let line = (plane * sizes.depth as usize + (z - pad_z) as usize) * sizes.height as usize;
        let place = (line + (y - pad_y) as usize) * sizes.width as usize;
        number = x[place + (x_at - pad_x) as usize];
    }
    number
}
