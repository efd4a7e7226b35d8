//! The gradients of the coefficients and of the base weights.
//!
//! A cube computes those of one input, for some outputs and all the bases of a window. Its groups of
//! units share the samples: each adds to sums of its own in shared memory, a unit to those of its
//! output, and the sums of the groups are added at the end. So no two units add to the same number.

use cubecl::prelude::*;

use crate::kernels::cube::buffers::{Sizes, WeightGradients};
use crate::kernels::cube::convolution::{
    ImageSizes, Layout, images_of_group, input_at, output_place, share_of_cube,
};
use crate::kernels::cube::function;
use crate::kernels::cube::layer::{CubeLayer, LayerGrid, knots};
use crate::kernels::cube::position::{Kind, Knots};
use crate::kernels::cube::recursion::evaluate;
use crate::kernels::cube::tiles::{LANES, cube_along, cubes};
use crate::kernels::cube_cost::sparse::weight_gradient::{GROUPS, OUTPUTS, SAMPLES, window};

/// Writes the gradients for that of the outputs, `[batch, out_features]`.
///
/// # Panics
/// If f32 does not resolve positions in equal intervals.
pub(crate) fn weight_gradient(
    client: &Client,
    grid: LayerGrid<'_>,
    layer: CubeLayer,
    sizes: Sizes,
    x: BufferArg,
    dy: BufferArg,
    gradients: WeightGradients,
) {
    let Sizes { batch, inputs: in_features, outputs, address, .. } = sizes;
    let window = window(layer);
    let windows = layer.bases().div_ceil(window as usize);
    gradient_of_weights::launch(
        client,
        cubes(sizes.across(outputs.div_ceil(OUTPUTS)), in_features as usize * windows),
        CubeDim::new_2d(LANES, GROUPS),
        address,
        x,
        dy,
        grid.knots,
        gradients.spline,
        gradients.base,
        knots(grid.grid),
        sizes.images(),
        batch,
        in_features,
        outputs,
        layer,
        sizes.layout(),
        window,
    );
}

#[cube(launch, address_type = "dynamic")]
fn gradient_of_weights(
    x: &[f32],
    dy: &[f32],
    list: &[f32],
    of_spline: &mut [f32],
    of_base: &mut [f32],
    knots: Knots,
    images: ImageSizes,
    batch: u32,
    in_features: u32,
    outputs: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] layout: Layout,
    #[comptime] window: u32,
) {
    let taps = comptime!(layer.taps());
    let bases = comptime!(layer.bases() as u32);
    let windows = comptime!(bases.div_ceil(window));
    let lane = UNIT_POS_X;
    let group = UNIT_POS_Y;
    let unit = group * LANES + lane;
    let input = min(cube_along() / windows, in_features - 1);
    let is_there = cube_along() / windows < in_features;
    let first_basis = cube_along() % windows * window;
    let share = share_of_cube(&images, layout);
    let images = images_of_group(&images, share.group);
    // Gradients of all groups follow each other.
    let edge = (share.group * in_features + input) as usize;
    let first_output = share.tile * OUTPUTS;
    // Beyond the end the last one is computed, and not written.
    let column = min(first_output + lane, outputs - 1);
    let output = column as usize;

    let mut positions = Shared::<[u32]>::new_slice(SAMPLES as usize);
    let mut values = Shared::<[f32]>::new_slice(comptime!(taps * SAMPLES as usize));
    let mut functions = Shared::<[f32]>::new_slice(SAMPLES as usize);
    // `[GROUPS, window, OUTPUTS]`.
    let mut sums = Shared::<[f32]>::new_slice(comptime!((SAMPLES * window) as usize));
    let mut sums_of_base = Shared::<[f32]>::new_slice(SAMPLES as usize);
    let own = group * comptime!(window * OUTPUTS) + lane;
    for basis in 0..window {
        sums[(own + basis * OUTPUTS) as usize] = 0.0f32;
    }
    let mut of_taps = Array::<f32>::new(taps);
    let mut sum_of_base = 0.0f32;
    // The bits of NaN if a sample of this unit has no value, else 0.
    let mut without_value = 0u32.runtime();

    let mut first_sample = 0u32.runtime();
    while first_sample < batch {
        let sample = min(first_sample + unit, batch - 1);
        let number = input_at(x, sample, input, in_features, &images, layout);
        let found = evaluate(number, input, &knots, list, &mut of_taps, layer, Kind::Value);
        positions[unit as usize] = found.window;
        without_value |= select(found.has_no_value, u32::reinterpret(found.nan), 0u32);
        #[unroll]
        for tap in 0..taps {
            values[unit as usize + comptime!(tap * SAMPLES as usize)] = of_taps[tap];
        }
        if comptime!(layer.activation.is_some()) {
            functions[unit as usize] =
                function::value(number, comptime!(layer.activation.unwrap_or_default()));
        }
        sync_cube();

        let count = min(SAMPLES, batch - first_sample);
        let mut sample = group;
        while sample < count {
            let row = first_sample + sample;
            let gradient = dy[output_place(row, column, outputs, &images, layout)];
            let at = positions[sample as usize];
            #[unroll]
            for tap in 0..taps {
                let basis = at + comptime!(tap as u32);
                let product =
                    values[sample as usize + comptime!(tap * SAMPLES as usize)] * gradient;
                if comptime!(windows == 1) {
                    sums[(own + basis * OUTPUTS) as usize] += product;
                } else if basis >= first_basis && basis < first_basis + window {
                    sums[(own + (basis - first_basis) * OUTPUTS) as usize] += product;
                }
            }
            if comptime!(layer.activation.is_some()) {
                sum_of_base += functions[sample as usize] * gradient;
            }
            sample += GROUPS;
        }
        sync_cube();
        first_sample += SAMPLES;
    }

    sums_of_base[unit as usize] = sum_of_base;
    positions[unit as usize] = without_value;
    sync_cube();
    // By definition all bases are NaN there, also those outside of the sample's window.
    let mut nan = 0u32.runtime();
    for unit in 0..SAMPLES {
        nan |= positions[unit as usize];
    }
    if is_there && first_output + lane < outputs {
        let mut basis = group;
        while basis < window && first_basis + basis < bases {
            let mut sum = 0.0f32;
            #[unroll]
            for group in 0..GROUPS {
                let at = comptime!(group * window * OUTPUTS) + basis * OUTPUTS + lane;
                sum += sums[at as usize];
            }
            let row = edge * bases as usize + (first_basis + basis) as usize;
            of_spline[row * outputs as usize + output] =
                select(nan != 0u32, f32::reinterpret(nan), sum);
            basis += GROUPS;
        }
        if comptime!(layer.activation.is_some()) {
            let is_first = group == 0 && first_basis == 0;
            if is_first {
                let mut sum = 0.0f32;
                #[unroll]
                for group in 0..GROUPS {
                    sum += sums_of_base[(comptime!(group * LANES) + lane) as usize];
                }
                of_base[edge * outputs as usize + output] = sum;
            }
        }
    }
}
