//! The weights of a part's inputs as a matrix, and its gradient as those of the parameters.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

#[cfg(feature = "autodiff")]
use super::super::buffers::WeightGradients;
use super::{Part, address};
use crate::kernels::cube::buffers::Sizes;
use crate::kernels::cube::layer::CubeLayer;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube::weight::weight;
use crate::kernels::cube_cost::expanded::UNITS;

/// Writes the weights, multiplied by their factors, `[part.inputs · rows, outputs]`.
pub(crate) fn pack_weights(
    client: &Client,
    layer: CubeLayer,
    sizes: Sizes,
    part: Part,
    numbers: ElemType,
    [spline, base, scaler]: [BufferArg; 3],
    matrix: BufferArg,
) {
    let rows = part.inputs as usize * layer.rows();
    weights_of_part::launch(
        client,
        cubes(sizes.outputs.div_ceil(UNITS) as usize, rows),
        CubeDim::new_1d(UNITS),
        address(sizes, rows * sizes.outputs as usize),
        spline,
        base,
        scaler,
        matrix,
        sizes.outputs,
        part.first_input,
        part.inputs,
        layer,
        numbers,
    );
}

#[cube(launch, address_type = "dynamic")]
fn weights_of_part<E: Float>(
    spline: &[f32],
    base: &[f32],
    scaler: &[f32],
    matrix: &mut [E],
    outputs: u32,
    first_input: u32,
    inputs: u32,
    #[comptime] layer: CubeLayer,
    #[define(E)] _numbers: ElemType,
) {
    let rows = comptime!(layer.rows() as u32);
    let line = cube_along();
    let output = CUBE_POS_X * UNITS + UNIT_POS_X;
    if line < inputs * rows && output < outputs {
        let input = first_input + line / rows;
        let value = weight(spline, base, scaler, input, line % rows, output, outputs, layer);
        matrix[line as usize * outputs as usize + output as usize] = E::cast_from(value);
    }
}

/// Writes a part of the gradients from those of the matrix, `[part.inputs · rows, outputs]`.
#[cfg(feature = "autodiff")]
pub(crate) fn unpack_gradients(
    client: &Client,
    layer: CubeLayer,
    sizes: Sizes,
    part: Part,
    of_matrix: BufferArg,
    gradients: WeightGradients,
) {
    let rows = part.inputs as usize * layer.rows();
    gradients_of_part::launch(
        client,
        cubes(sizes.outputs.div_ceil(UNITS) as usize, rows),
        CubeDim::new_1d(UNITS),
        address(sizes, rows * sizes.outputs as usize),
        of_matrix,
        gradients.spline,
        gradients.base,
        sizes.outputs,
        part.first_input,
        part.inputs,
        layer,
    );
}

#[cfg(feature = "autodiff")]
#[cube(launch, address_type = "dynamic")]
fn gradients_of_part(
    of_matrix: &[f32],
    of_spline: &mut [f32],
    of_base: &mut [f32],
    outputs: u32,
    first_input: u32,
    inputs: u32,
    #[comptime] layer: CubeLayer,
) {
    let rows = comptime!(layer.rows() as u32);
    let bases = comptime!(layer.bases() as u32);
    let line = cube_along();
    let output = CUBE_POS_X * UNITS + UNIT_POS_X;
    if line < inputs * rows && output < outputs {
        let (input, row) = (first_input + line / rows, line % rows);
        let gradient = of_matrix[line as usize * outputs as usize + output as usize];
        let mut is_base = false.runtime();
        if comptime!(layer.activation.is_some()) {
            is_base = row == bases;
        }
        if is_base {
            of_base[input as usize * outputs as usize + output as usize] = gradient;
        } else {
            let row = input as usize * bases as usize + row as usize;
            of_spline[row * outputs as usize + output as usize] = gradient;
        }
    }
}
