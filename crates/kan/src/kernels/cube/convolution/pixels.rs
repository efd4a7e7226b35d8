//! Rows of a group's outputs, and the pixels that they belong to.

use cubecl::prelude::*;

use super::images::{ConvImages, ImageSizes};
use super::rows::Rows;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube_cost::convolution::UNITS;

/// Writes some rows, `[rows.count, rows.outputs]`, to outputs `[batch, out_channels, ...]`.
pub(crate) fn scatter_rows(
    client: &Client,
    images: ConvImages,
    rows: Rows,
    of_rows: BufferArg,
    y: BufferArg,
) {
    let all = rows.count * rows.outputs;
    pixels_of_rows::launch(
        client,
        cubes(1, all.div_ceil(UNITS) as usize),
        CubeDim::new_1d(UNITS),
        images.address.max(AddressType::from_len(all as usize)),
        of_rows,
        y,
        images.sizes(rows),
        rows.count,
        rows.outputs,
    );
}

/// Writes some rows, `[rows.count, rows.outputs]`, of gradients `[batch, out_channels, ...]`.
#[cfg(feature = "autodiff")]
pub(crate) fn gather_rows(
    client: &Client,
    images: ConvImages,
    rows: Rows,
    dy: BufferArg,
    of_rows: BufferArg,
) {
    let all = rows.count * rows.outputs;
    rows_of_pixels::launch(
        client,
        cubes(1, all.div_ceil(UNITS) as usize),
        CubeDim::new_1d(UNITS),
        images.address.max(AddressType::from_len(all as usize)),
        dy,
        of_rows,
        images.sizes(rows),
        rows.count,
        rows.outputs,
    );
}

#[cube(launch, address_type = "dynamic")]
fn pixels_of_rows(of_rows: &[f32], y: &mut [f32], sizes: ImageSizes, rows: u32, outputs: u32) {
    let at = cube_along() * UNITS + UNIT_POS_X;
    // Neighbouring units have neighbouring pixels.
    let (output, row) = (at / rows, at % rows);
    if output < outputs {
        let place = place_of(row, output, &sizes);
        y[place] = of_rows[row as usize * outputs as usize + output as usize];
    }
}

#[cfg(feature = "autodiff")]
#[cube(launch, address_type = "dynamic")]
fn rows_of_pixels(dy: &[f32], of_rows: &mut [f32], sizes: ImageSizes, rows: u32, outputs: u32) {
    let at = cube_along() * UNITS + UNIT_POS_X;
    let (output, row) = (at / rows, at % rows);
    if output < outputs {
        let place = place_of(row, output, &sizes);
        of_rows[row as usize * outputs as usize + output as usize] = dy[place];
    }
}

/// The index of an output of a row, both counted from the first ones of the launch.
#[cube]
pub(super) fn place_of(row: u32, output: u32, sizes: &ImageSizes) -> usize {
    let pixels = sizes.out_depth * sizes.out_height * sizes.out_width;
    let row = sizes.first_row + row;
    let first = (row / pixels) as usize * sizes.outputs as usize;
    let plane = first + (sizes.first_output + output) as usize;
    plane * pixels as usize + (row % pixels) as usize
}
