//! The forward pass.
//!
//! A cube computes a tile of samples and outputs. It evaluates the bases of some inputs for all its
//! samples into shared memory, then adds the products of the few bases that are not zero, with
//! weights from shared memory if those of an input fit there.

use cubecl::prelude::*;

use crate::kernels::cube::buffers::{Inputs, Sizes};
use crate::kernels::cube::convolution::{
    ImageSizes, Layout, images_of_group, input_at, output_place, share_of_cube,
};
use crate::kernels::cube::function;
use crate::kernels::cube::layer::{CubeLayer, LayerGrid, knots};
use crate::kernels::cube::position::{Kind, Knots};
use crate::kernels::cube::recursion::evaluate;
use crate::kernels::cube::tiles::{LANES, cube_along, cubes};
use crate::kernels::cube::weight::weight;
use crate::kernels::cube_cost::sparse::forward::{
    EVALUATED, GROUPS, INPUTS, OUTPUTS, SAMPLES, staged_inputs,
};

/// Writes the outputs, `[batch, out_features]`, for at least one sample; a layer without bias has
/// any buffer in its place.
///
/// # Panics
/// If f32 does not resolve positions in equal intervals.
pub(crate) fn forward(
    client: &Client,
    grid: LayerGrid<'_>,
    layer: CubeLayer,
    sizes: Sizes,
    inputs: Inputs,
    bias: BufferArg,
    y: BufferArg,
) {
    let Sizes { batch, inputs: in_features, outputs, address, .. } = sizes;
    layer_forward::launch(
        client,
        cubes(sizes.across(outputs.div_ceil(OUTPUTS)), batch.div_ceil(SAMPLES) as usize),
        CubeDim::new_2d(LANES, GROUPS),
        address,
        inputs.x,
        inputs.spline,
        inputs.base,
        inputs.scaler,
        bias,
        grid.knots,
        y,
        knots(grid.grid),
        sizes.images(),
        batch,
        in_features,
        outputs,
        layer,
        sizes.layout(),
        staged_inputs(layer),
    );
}

#[cube(launch, address_type = "dynamic")]
fn layer_forward(
    x: &[f32],
    spline: &[f32],
    base: &[f32],
    scaler: &[f32],
    bias: &[f32],
    list: &[f32],
    y: &mut [f32],
    knots: Knots,
    images: ImageSizes,
    batch: u32,
    in_features: u32,
    outputs: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] layout: Layout,
    #[comptime] staged: usize,
) {
    let taps = comptime!(layer.taps());
    let rows = comptime!(layer.rows() as u32);
    let bases = comptime!(layer.bases() as u32);
    let lane = UNIT_POS_X;
    let group = UNIT_POS_Y;
    let unit = group * LANES + lane;
    let share = share_of_cube(&images, layout);
    let images = images_of_group(&images, share.group);
    // Weights and biases of all groups follow each other.
    let inputs_before = share.group * in_features;
    let outputs_before = share.group * outputs;
    let first_output = share.tile * OUTPUTS;
    let first_sample = cube_along() * SAMPLES;

    // Of the evaluated numbers, `[INPUTS, SAMPLES]`, and for values `[taps, INPUTS, SAMPLES]`.
    let mut windows = Shared::<[u32]>::new_slice(EVALUATED);
    let mut values = Shared::<[f32]>::new_slice(comptime!(taps * EVALUATED));
    let mut functions = Shared::<[f32]>::new_slice(EVALUATED);
    let of_input = comptime!(rows * OUTPUTS);
    let mut weights = Shared::<[f32]>::new_slice(comptime!((staged * of_input as usize).max(1)));
    // Of four samples and two outputs.
    let mut sums = Array::<f32>::new(8usize);
    let mut of_taps = Array::<f32>::new(taps);

    let mut first_input = 0u32.runtime();
    while first_input < in_features {
        let slot = unit % INPUTS;
        let sample = unit / INPUTS;
        // Beyond the end the last ones are evaluated, and not used.
        let row = min(first_sample + sample, batch - 1);
        let input = min(first_input + slot, in_features - 1);
        let number = input_at(x, row, input, in_features, &images, layout);
        let found = evaluate(number, input, &knots, list, &mut of_taps, layer, Kind::Value);
        let at = (slot * SAMPLES + sample) as usize;
        windows[at] = found.window;
        #[unroll]
        for tap in 0..taps {
            values[at + comptime!(tap * EVALUATED)] = of_taps[tap];
        }
        if comptime!(layer.activation.is_some()) {
            functions[at] =
                function::value(number, comptime!(layer.activation.unwrap_or_default()));
        }
        sync_cube();

        let count = min(INPUTS, in_features - first_input);
        let mut slot = 0u32.runtime();
        while slot < count {
            let step = comptime!(staged.max(1) as u32);
            let end = min(slot + step, count);
            if comptime!(staged > 0) {
                let mut index = unit;
                let total = (end - slot) * of_input;
                while index < total {
                    let input = inputs_before + first_input + slot + index / of_input;
                    let row = index % of_input / OUTPUTS;
                    // Beyond the end the last weight is read, and its sum is not written.
                    let output = min(first_output + index % OUTPUTS, outputs - 1);
                    weights[index as usize] =
                        weight(spline, base, scaler, input, row, output, outputs, layer);
                    index += comptime!(LANES * GROUPS);
                }
                sync_cube();
            }
            let start = slot;
            while slot < end {
                let input = inputs_before + first_input + slot;
                let staged_at = (slot - start) * of_input;
                #[unroll]
                for sample in 0..4usize {
                    let at = (slot * SAMPLES + comptime!(sample as u32 * GROUPS) + group) as usize;
                    let window = windows[at];
                    #[unroll]
                    for column in 0..2usize {
                        let place = lane + comptime!(column as u32 * LANES);
                        let output = min(first_output + place, outputs - 1);
                        let sum = comptime!(2 * sample + column);
                        #[unroll]
                        for tap in 0..taps {
                            let row = window + comptime!(tap as u32);
                            let factor = if comptime!(staged > 0) {
                                weights[(staged_at + row * OUTPUTS + place) as usize]
                            } else {
                                weight(spline, base, scaler, input, row, output, outputs, layer)
                            };
                            sums[sum] += values[at + comptime!(tap * EVALUATED)] * factor;
                        }
                        if comptime!(layer.activation.is_some()) {
                            let factor = if comptime!(staged > 0) {
                                weights[(staged_at + bases * OUTPUTS + place) as usize]
                            } else {
                                base[input as usize * outputs as usize + output as usize]
                            };
                            sums[sum] += functions[at] * factor;
                        }
                    }
                }
                slot += 1u32;
            }
            if comptime!(staged > 0) {
                sync_cube();
            }
        }
        sync_cube();
        first_input += INPUTS;
    }

    #[unroll]
    for sample in 0..4usize {
        let row = first_sample + comptime!(sample as u32 * GROUPS) + group;
        #[unroll]
        for column in 0..2usize {
            let output = first_output + comptime!(column as u32 * LANES) + lane;
            if row < batch && output < outputs {
                let mut sum = sums[comptime!(2 * sample + column)];
                if comptime!(layer.has_bias) {
                    sum += bias[(outputs_before + output) as usize];
                }
                y[output_place(row, output, outputs, &images, layout)] = sum;
            }
        }
    }
}
