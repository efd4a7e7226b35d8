//! The sizes of a convolution as arguments of kernels.

use cubecl::prelude::*;

use crate::kernels::{ConvGeometry, Shapes};

/// A convolution of images.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConvImages {
    pub(super) window: Window,
    shapes: Shapes,
    channels: usize,
    outputs: usize,
    /// The type of an index into the images or their outputs.
    pub(super) address: AddressType,
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

    pub(super) fn sizes(&self) -> ImageSizesLaunch {
        let [depth, height, width] = self.shapes.input.map(number);
        let [out_depth, out_height, out_width] = self.shapes.output.map(number);
        ImageSizesLaunch::new(
            number(self.channels),
            number(self.outputs),
            depth,
            height,
            width,
            out_depth,
            out_height,
            out_width,
        )
    }
}

fn number(size: usize) -> u32 {
    u32::try_from(size).expect("at most 2^32 pixels and channels")
}

/// How the kernel moves over the three axes of an image; kernels for GPUs are compiled for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Window {
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

/// The sizes of images `[batch, channels, depth, height, width]` and of their outputs.
#[derive(CubeType, CubeLaunch, Clone)]
#[expand(derive(Clone))]
pub(super) struct ImageSizes {
    pub(super) channels: u32,
    pub(super) outputs: u32,
    pub(super) depth: u32,
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) out_depth: u32,
    pub(super) out_height: u32,
    pub(super) out_width: u32,
}

/// The output pixel of a row.
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
    let of_plane = sizes.out_height * sizes.out_width;
    let of_image = sizes.out_depth * of_plane;
    let pixel = row % of_image;
    Pixel {
        image: row / of_image,
        z: pixel / of_plane,
        y: pixel % of_plane / sizes.out_width,
        x: pixel % sizes.out_width,
    }
}
