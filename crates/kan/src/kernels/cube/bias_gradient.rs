//! The gradient of the bias.

use cubecl::prelude::*;

use super::buffers::Sizes;
use super::convolution::{ImageSizes, Layout, images_of_group, output_place, share_of_cube};
use super::tiles::{LANES, cubes};
use crate::kernels::cube_cost::bias_gradient::GROUPS;

/// Writes the sums over the samples, `[out_features]` of all groups, of the gradient of the outputs,
/// `[batch, out_features]`.
pub(crate) fn bias_gradient(client: &Client, sizes: Sizes, dy: BufferArg, of_bias: BufferArg) {
    let Sizes { batch, outputs, address, .. } = sizes;
    gradient_of_bias::launch(
        client,
        cubes(sizes.across(outputs.div_ceil(LANES)), 1),
        CubeDim::new_2d(LANES, GROUPS),
        address,
        dy,
        of_bias,
        sizes.images(),
        batch,
        outputs,
        sizes.layout(),
    );
}

#[cube(launch, address_type = "dynamic")]
fn gradient_of_bias(
    dy: &[f32],
    of_bias: &mut [f32],
    images: ImageSizes,
    batch: u32,
    outputs: u32,
    #[comptime] layout: Layout,
) {
    let share = share_of_cube(&images, layout);
    let images = images_of_group(&images, share.group);
    let output = share.tile * LANES + UNIT_POS_X;
    // Beyond the end the last one is summed, and not written.
    let column = min(output, outputs - 1);
    let mut sum = 0.0f32;
    let mut sample = UNIT_POS_Y;
    while sample < batch {
        sum += dy[output_place(sample, column, outputs, &images, layout)];
        sample += GROUPS;
    }
    let mut sums = Shared::<[f32]>::new_slice(comptime!((LANES * GROUPS) as usize));
    sums[(UNIT_POS_Y * LANES + UNIT_POS_X) as usize] = sum;
    sync_cube();
    if UNIT_POS_Y == 0 && output < outputs {
        let mut total = 0.0f32;
        #[unroll]
        for group in 0..GROUPS {
            total += sums[(comptime!(group * LANES) + UNIT_POS_X) as usize];
        }
        of_bias[(share.group * outputs + output) as usize] = total;
    }
}
