//! Where the numbers of a layer's samples are: in rows, or in images.
//!
//! A kernel reads and writes through these functions, so that one source computes linear layers and
//! convolutions, and a convolution stores no patches.

use cubecl::prelude::*;

#[cfg(feature = "autodiff")]
use super::hit::output_of_tap;
#[cfg(feature = "autodiff")]
use super::images::input_pixel_of;
use super::images::{ImageSizes, Window, pixel_of};
use super::patches::number_of_patch;
use super::pixels::place_of;

/// Where the numbers of samples are; kernels for GPUs are compiled for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::kernels::cube) enum Layout {
    /// In matrices, a sample after the other.
    Rows,
    /// In images: a sample is an output's pixel, and its inputs are what this window sees.
    Images(Window),
}

impl Layout {
    pub(in crate::kernels::cube) const fn is_rows(self) -> bool {
        matches!(self, Self::Rows)
    }

    /// Weights of an input at which a sample of the input gradient is multiplied: the taps of the
    /// window.
    #[cfg(feature = "autodiff")]
    pub(in crate::kernels::cube) const fn taps(self) -> u32 {
        self.window().taps()
    }

    /// The window of images; a single pixel for rows.
    const fn window(self) -> Window {
        match self {
            Self::Rows => {
                Window { kernel: [1; 3], stride: [1; 3], padding: [0; 3], dilation: [1; 3] }
            }
            Self::Images(window) => window,
        }
    }
}

/// An input of a sample.
#[cube]
pub(in crate::kernels::cube) fn input_at(
    x: &[f32],
    sample: u32,
    input: u32,
    inputs: u32,
    images: &ImageSizes,
    #[comptime] layout: Layout,
) -> f32 {
    if comptime!(layout.is_rows()) {
        x[sample as usize * inputs as usize + input as usize]
    } else {
        let pixel = pixel_of(images.first_row + sample, images);
        number_of_patch(x, &pixel, input, images, comptime!(layout.window()))
    }
}

/// The index of an output of a sample.
#[cube]
pub(in crate::kernels::cube) fn output_place(
    sample: u32,
    output: u32,
    outputs: u32,
    images: &ImageSizes,
    #[comptime] layout: Layout,
) -> usize {
    if comptime!(layout.is_rows()) {
        sample as usize * outputs as usize + output as usize
    } else {
        place_of(sample, output, images)
    }
}

/// The index of an input whose gradient is computed: of a sample's in rows, of a pixel's channel in
/// images, where the samples are pixels.
#[cfg(feature = "autodiff")]
#[cube]
pub(in crate::kernels::cube) fn input_place(
    sample: u32,
    input: u32,
    inputs: u32,
    images: &ImageSizes,
    #[comptime] layout: Layout,
) -> usize {
    if comptime!(layout.is_rows()) {
        sample as usize * inputs as usize + input as usize
    } else {
        let of_image = images.depth * images.height * images.width;
        let first = (sample / of_image) as usize * images.channels as usize;
        let plane = first + (images.first_channel + input) as usize;
        plane * of_image as usize + (sample % of_image) as usize
    }
}

/// The gradient of an output that an input reaches by the weights of a tap.
#[cfg(feature = "autodiff")]
#[derive(CubeType)]
pub(in crate::kernels::cube) struct TapGradient {
    /// Whether there is such an output: always in rows.
    pub(in crate::kernels::cube) is_there: bool,
    /// Its gradient, or 0.
    pub(in crate::kernels::cube) value: f32,
}

/// The gradient of an output that the inputs of [`input_place`] reach by the weights of a tap: of the
/// sample's own in rows, of that of the window with the pixel at this tap in images.
#[cfg(feature = "autodiff")]
#[cube]
pub(in crate::kernels::cube) fn gradient_at(
    dy: &[f32],
    sample: u32,
    output: u32,
    outputs: u32,
    tap: u32,
    images: &ImageSizes,
    #[comptime] layout: Layout,
) -> TapGradient {
    if comptime!(layout.is_rows()) {
        let is_there = true.runtime();
        let value = dy[sample as usize * outputs as usize + output as usize];
        TapGradient { is_there, value }
    } else {
        let pixel = input_pixel_of(sample, images);
        let hit = output_of_tap(&pixel, tap, images, comptime!(layout.window()));
        let is_there = hit.is_there;
        let mut value = 0.0f32;
        if is_there {
            value = dy[place_of(hit.row, output, images)];
        }
        TapGradient { is_there, value }
    }
}

/// Whether the window of an output has a pixel of images. Without one its gradient is 0, also where
/// bases have no value.
#[cfg(feature = "autodiff")]
#[cube]
pub(in crate::kernels::cube) fn is_seen(
    sample: u32,
    images: &ImageSizes,
    #[comptime] layout: Layout,
) -> bool {
    let pixel = input_pixel_of(sample, images);
    let mut result = false.runtime();
    for tap in 0..comptime!(layout.taps()) {
        let hit = output_of_tap(&pixel, tap, images, comptime!(layout.window()));
        result = result || hit.is_there;
    }
    result
}
