//! One weight of a layer.

use cubecl::prelude::*;

use super::layer::CubeLayer;

/// Row `row` of an input's weights: a coefficient times its spline's factor, or after the
/// coefficients the base weight.
#[cube]
pub(super) fn weight(
    spline: &[f32],
    base: &[f32],
    scaler: &[f32],
    input: u32,
    row: u32,
    output: u32,
    outputs: u32,
    #[comptime] layer: CubeLayer,
) -> f32 {
    let bases = comptime!(layer.bases() as u32);
    let edge = input as usize * outputs as usize + output as usize;
    let mut is_base = false.runtime();
    if comptime!(layer.activation.is_some()) {
        is_base = row == bases;
    }
    if is_base {
        base[edge]
    } else {
        coefficient(spline, scaler, input, row, output, outputs, layer)
    }
}

#[cube]
fn coefficient(
    spline: &[f32],
    scaler: &[f32],
    input: u32,
    row: u32,
    output: u32,
    outputs: u32,
    #[comptime] layer: CubeLayer,
) -> f32 {
    let bases = comptime!(layer.bases());
    let row = input as usize * bases + row as usize;
    let coefficient = spline[row * outputs as usize + output as usize];
    if comptime!(layer.is_scaled) {
        coefficient * scaler[input as usize * outputs as usize + output as usize]
    } else {
        coefficient
    }
}
