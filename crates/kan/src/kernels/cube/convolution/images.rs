//! The sizes of a convolution as arguments of kernels.

use cubecl::prelude::*;

use super::layout::Layout;
use super::rows::Rows;
use crate::kernels::{ConvGeometry, Shapes};

/// A convolution of images.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConvImages {
    pub(super) window: Window,
    shapes: Shapes,
    channels: usize,
    outputs: usize,
    groups: usize,
    /// The type of an index into the images or their outputs.
    pub(in crate::kernels::cube) address: AddressType,
}

impl ConvImages {
    /// Of so many images with these spatial sizes.
    ///
    /// # Panics
    /// If the images are smaller than the kernel, or have more than 2³² pixels in all.
    pub(crate) fn new(geometry: &ConvGeometry, batch: usize, sides: &[usize]) -> Self {
        let shapes = geometry.shapes_of(batch, sides).expect("the operation has checked it");
        let (channels, outputs) = (geometry.in_channels(), geometry.out_channels());
        let [of_images, of_outputs] =
            [channels * shapes.in_pixels(), outputs * shapes.out_pixels()]
                .map(|of_image| batch * of_image);
        let pixels = batch * shapes.in_pixels().max(shapes.out_pixels());
        assert!(u32::try_from(pixels).is_ok(), "at most 2^32 pixels, got {pixels}");
        let axes = geometry.axes;
        Self {
            window: Window {
                kernel: axes.map(|axis| number(axis.kernel)),
                stride: axes.map(|axis| number(axis.stride)),
                padding: axes.map(|axis| number(axis.padding)),
                dilation: axes.map(|axis| number(axis.dilation)),
            },
            shapes,
            channels,
            outputs,
            groups: geometry.groups(),
            address: AddressType::from_len(of_images.max(of_outputs)),
        }
    }

    /// Rows of the whole batch: pixels of the outputs of all images.
    pub(crate) fn rows(&self) -> usize {
        self.shapes.batch * self.shapes.out_pixels()
    }

    /// The images that some rows belong to, and how many there are.
    #[cfg(feature = "autodiff")]
    pub(super) fn of_rows(&self, first: u32, count: u32) -> (u32, u32) {
        let pixels = number(self.shapes.out_pixels());
        let (from, last) = (first / pixels, (first + count - 1) / pixels);
        (from, last - from + 1)
    }

    /// Pixels of an image.
    #[cfg(feature = "autodiff")]
    pub(super) fn in_pixels(&self) -> u32 {
        number(self.shapes.in_pixels())
    }

    /// Pixels of all images.
    #[cfg(feature = "autodiff")]
    pub(in crate::kernels::cube) fn all_pixels(&self) -> u32 {
        number(self.shapes.batch * self.shapes.in_pixels())
    }

    /// Taps of the window.
    pub(crate) const fn taps(&self) -> u32 {
        self.window.taps()
    }

    /// Groups of channels.
    pub(crate) fn groups(&self) -> u32 {
        number(self.groups)
    }

    /// Samples whose numbers are in these images.
    pub(in crate::kernels::cube) const fn layout(&self) -> Layout {
        Layout::Images(self.window)
    }

    /// The arguments of a launch for some rows.
    pub(in crate::kernels::cube) fn sizes(&self, rows: Rows) -> ImageSizesLaunch {
        let [depth, height, width] = self.shapes.input.map(number);
        let [out_depth, out_height, out_width] = self.shapes.output.map(number);
        ImageSizesLaunch::new(
            number(self.channels),
            number(self.outputs),
            self.groups(),
            depth,
            height,
            width,
            out_depth,
            out_height,
            out_width,
            rows.first,
            rows.group * rows.channels,
            rows.group * rows.outputs,
        )
    }
}

/// Instead of images where samples are in rows: the arguments are not read.
pub(in crate::kernels::cube) fn no_images() -> ImageSizesLaunch {
    ImageSizesLaunch::new(0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}

fn number(size: usize) -> u32 {
    u32::try_from(size).expect("at most 2^32 pixels and channels")
}

/// How the kernel moves over the three axes of an image; kernels for GPUs are compiled for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::kernels::cube) struct Window {
    pub(super) kernel: [u32; 3],
    pub(super) stride: [u32; 3],
    pub(super) padding: [u32; 3],
    pub(super) dilation: [u32; 3],
}

impl Window {
    /// Taps of the kernel.
    pub(super) const fn taps(&self) -> u32 {
        self.kernel[0] * self.kernel[1] * self.kernel[2]
    }
}

/// The sizes of images `[batch, channels, depth, height, width]` and of their outputs, and where a
/// launch begins in them.
#[derive(CubeType, CubeLaunch, Clone)]
#[expand(derive(Clone))]
pub(in crate::kernels::cube) struct ImageSizes {
    pub(super) channels: u32,
    pub(super) outputs: u32,
    /// Of channels.
    pub(super) groups: u32,
    pub(super) depth: u32,
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) out_depth: u32,
    pub(super) out_height: u32,
    pub(super) out_width: u32,
    /// The first row: an output's pixel, counted image by image.
    pub(super) first_row: u32,
    /// The first channel of a group.
    pub(super) first_channel: u32,
    /// The first output of a group.
    pub(super) first_output: u32,
}

/// A pixel of the images, or of their outputs.
#[derive(CubeType)]
pub(super) struct Pixel {
    pub(super) image: u32,
    pub(super) z: u32,
    pub(super) y: u32,
    pub(super) x: u32,
}

/// Where a row is in the outputs, which are counted image by image.
#[cube]
pub(super) fn pixel_of(row: u32, sizes: &ImageSizes) -> Pixel {
    pixel_in(row, sizes.out_depth, sizes.out_height, sizes.out_width)
}

/// Where a pixel is in the images.
#[cfg(feature = "autodiff")]
#[cube]
pub(super) fn input_pixel_of(pixel: u32, sizes: &ImageSizes) -> Pixel {
    pixel_in(pixel, sizes.depth, sizes.height, sizes.width)
}

#[cube]
fn pixel_in(number: u32, depth: u32, height: u32, width: u32) -> Pixel {
    let of_plane = height * width;
    let of_image = depth * of_plane;
    let pixel = number % of_image;
    Pixel {
        image: number / of_image,
        z: pixel / of_plane,
        y: pixel % of_plane / width,
        x: pixel % width,
    }
}
