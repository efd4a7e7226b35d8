//! The weights as the products read them.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use crate::kernels::cube::buffers::Sizes;
use crate::kernels::cube::layer::CubeLayer;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube::weight::weight;
use crate::kernels::cube_cost::tensor_cores::{TILE, UNITS, depth, slots};

/// The layout of packed weights, `[chunks, depth, columns]`: the rows of a chunk's inputs one after
/// the other, and zeros where there is no row, input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Packing {
    /// Inputs of a chunk.
    pub(super) slots: u32,
    /// Rows of a chunk.
    pub(super) depth: u32,
    pub(super) chunks: u32,
    /// Outputs, to whole tiles.
    pub(super) columns: u32,
}

impl Packing {
    pub(in super::super) fn new(layer: CubeLayer, sizes: Sizes) -> Self {
        let slots = slots(layer);
        Self {
            slots,
            depth: depth(layer),
            chunks: sizes.inputs.div_ceil(slots),
            columns: sizes.outputs.next_multiple_of(TILE),
        }
    }

    /// Numbers of the packed weights.
    pub(in super::super) fn len(self) -> usize {
        self.chunks as usize * self.depth as usize * self.columns as usize
    }
}

/// Writes the packed weights.
pub(in super::super) fn pack(
    client: &Client,
    layer: CubeLayer,
    sizes: Sizes,
    numbers: ElemType,
    [spline, base, scaler]: [BufferArg; 3],
    packed: BufferArg,
) {
    let packing = Packing::new(layer, sizes);
    pack_weights::launch(
        client,
        cubes((packing.columns / TILE) as usize, (packing.chunks * packing.depth) as usize),
        CubeDim::new_1d(TILE),
        sizes.address,
        spline,
        base,
        scaler,
        packed,
        sizes.inputs,
        sizes.outputs,
        packing.chunks,
        layer,
        packing.slots,
        packing.depth,
        numbers,
    );
}
const _: () = assert!(TILE <= UNITS);

#[cube(launch, address_type = "dynamic")]
fn pack_weights<E: Float>(
    spline: &[f32],
    base: &[f32],
    scaler: &[f32],
    packed: &mut [E],
    in_features: u32,
    outputs: u32,
    chunks: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] slots: u32,
    #[comptime] depth: u32,
    #[define(E)] _numbers: ElemType,
) {
    let rows = comptime!(layer.rows() as u32);
    let line = cube_along();
    let (chunk, row) = (line / depth, line % depth);
    let columns = CUBE_COUNT_X * TILE;
    let output = CUBE_POS_X * TILE + UNIT_POS_X;
    let input = chunk * slots + row / rows;
    if chunk < chunks {
        let mut factor = 0.0f32;
        if row < comptime!(slots * rows) && input < in_features && output < outputs {
            factor = weight(spline, base, scaler, input, row % rows, output, outputs, layer);
        }
        packed[line as usize * columns as usize + output as usize] = E::cast_from(factor);
    }
}
