//! The outputs that see a pixel.

use cubecl::prelude::*;

use super::images::{ImageSizes, Pixel, Window};

/// The output whose window has a pixel at a tap.
#[derive(CubeType)]
pub(super) struct Hit {
    /// Whether there is one: a step may leave pixels out, and a window may begin outside.
    pub(super) is_there: bool,
    /// The output's pixel, counted image by image; any number if there is none.
    pub(super) row: u32,
}

#[cube]
pub(super) fn output_of_tap(
    pixel: &Pixel,
    tap: u32,
    sizes: &ImageSizes,
    #[comptime] window: Window,
) -> Hit {
    let taps_y = comptime!(window.kernel[1]);
    let taps_x = comptime!(window.kernel[2]);
    let from_z = tap / (taps_y * taps_x) * comptime!(window.dilation[0]);
    let from_y = tap / taps_x % taps_y * comptime!(window.dilation[1]);
    let from_x = tap % taps_x * comptime!(window.dilation[2]);
    // Counted from the start of the padding.
    let z = pixel.z + comptime!(window.padding[0]);
    let y = pixel.y + comptime!(window.padding[1]);
    let x = pixel.x + comptime!(window.padding[2]);
    // Differences of unsigned numbers: those of windows that would begin before the padding are 0.
    let is_after = z >= from_z && y >= from_y && x >= from_x;
    let far_z = z - min(from_z, z);
    let far_y = y - min(from_y, y);
    let far_x = x - min(from_x, x);
    let out_z = far_z / comptime!(window.stride[0]);
    let out_y = far_y / comptime!(window.stride[1]);
    let out_x = far_x / comptime!(window.stride[2]);
    let is_hit = out_z * comptime!(window.stride[0]) == far_z
        && out_y * comptime!(window.stride[1]) == far_y
        && out_x * comptime!(window.stride[2]) == far_x;
    let is_output = out_z < sizes.out_depth && out_y < sizes.out_height && out_x < sizes.out_width;
    let plane = pixel.image * sizes.out_depth + out_z;
    let is_there = is_after && is_hit && is_output;
    Hit { is_there, row: (plane * sizes.out_height + out_y) * sizes.out_width + out_x }
}
