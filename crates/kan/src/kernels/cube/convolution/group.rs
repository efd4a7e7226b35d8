//! The groups of channels that a launch computes.

use cubecl::prelude::*;

use super::images::ImageSizes;
use super::layout::Layout;

/// What a cube computes: a launch has the tiles of all groups along its first axis, those of a group
/// after each other.
#[derive(CubeType)]
pub(in crate::kernels::cube) struct Share {
    /// The group of channels: 0 in rows.
    pub(in crate::kernels::cube) group: u32,
    /// The tile of the group's outputs, or of its inputs.
    pub(in crate::kernels::cube) tile: u32,
}

#[cube]
pub(in crate::kernels::cube) fn share_of_cube(
    images: &ImageSizes,
    #[comptime] layout: Layout,
) -> Share {
    if comptime!(layout.is_rows()) {
        let group = 0u32.runtime();
        Share { group, tile: CUBE_POS_X }
    } else {
        let tiles = CUBE_COUNT_X / images.groups;
        Share { group: CUBE_POS_X / tiles, tile: CUBE_POS_X % tiles }
    }
}

/// The images of which channels and outputs are counted from the first ones of a group.
#[cube]
pub(in crate::kernels::cube) fn images_of_group(images: &ImageSizes, group: u32) -> ImageSizes {
    ImageSizes {
        channels: images.channels,
        outputs: images.outputs,
        groups: images.groups,
        depth: images.depth,
        height: images.height,
        width: images.width,
        out_depth: images.out_depth,
        out_height: images.out_height,
        out_width: images.out_width,
        first_row: images.first_row,
        first_channel: group * (images.channels / images.groups),
        first_output: group * (images.outputs / images.groups),
    }
}
