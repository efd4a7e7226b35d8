//! Windows over images, for the kernels that read them.

use cubecl::prelude::*;
use updraft_conv::slices::{ConvGeometry, ConvShape};

/// What is not in the image.
pub(super) const OUTSIDE: u32 = u32::MAX;

/// Rows and columns of an image and of the window.
#[derive(CubeType, CubeLaunch, Clone)]
#[expand(derive(Clone))]
pub(super) struct Window {
    rows: u32,
    columns: u32,
    rows_of_output: u32,
    columns_of_output: u32,
    pub(super) kernel_rows: u32,
    pub(super) kernel_columns: u32,
    stride_rows: u32,
    stride_columns: u32,
    padding_rows: u32,
    padding_columns: u32,
    dilation_rows: u32,
    dilation_columns: u32,
}

/// The place of a window: the first pixel of its image, and the row and column at which it begins in
/// the padded image.
#[derive(CubeType)]
pub(super) struct Place {
    pub(super) image: u32,
    pub(super) row: u32,
    pub(super) column: u32,
}

/// The place of the window of an output's pixel.
#[cube]
pub(super) fn place_of(pixel: u32, window: &Window) -> Place {
    let of_image = window.rows_of_output * window.columns_of_output;
    let within = pixel % of_image;
    Place {
        image: pixel / of_image * (window.rows * window.columns),
        row: within / window.columns_of_output * window.stride_rows,
        column: within % window.columns_of_output * window.stride_columns,
    }
}

/// The pixel of all images at an entry of a window; [`OUTSIDE`] in the padding.
#[cube]
pub(super) fn pixel_at(image: u32, row: u32, column: u32, entry: u32, window: &Window) -> u32 {
    // Before the first row the difference is beyond the last one.
    let own_row = row + entry / window.kernel_columns * window.dilation_rows - window.padding_rows;
    let own_column =
        column + entry % window.kernel_columns * window.dilation_columns - window.padding_columns;
    let is_inside = own_row < window.rows && own_column < window.columns;
    select(is_inside, image + own_row * window.columns + own_column, OUTSIDE)
}

/// The sizes of a window over images of one size.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowSizes {
    input: [u32; 2],
    output: [u32; 2],
    kernel: [u32; 2],
    stride: [u32; 2],
    padding: [u32; 2],
    dilation: [u32; 2],
}

impl WindowSizes {
    pub(super) fn new(geometry: &ConvGeometry) -> Self {
        let ConvShape { input, kernel, stride, padding, dilation, .. } = *geometry.shape();
        let narrow = |sides: [usize; 2]| sides.map(|side| side as u32);
        Self {
            input: narrow(input),
            output: narrow(geometry.output()),
            kernel: narrow(kernel),
            stride: narrow(stride),
            padding: narrow(padding),
            dilation: narrow(dilation),
        }
    }

    /// A window that is the only pixel of its image.
    pub(super) const fn of_point() -> Self {
        let one = [1; 2];
        Self { input: one, output: one, kernel: one, stride: one, padding: [0; 2], dilation: one }
    }

    /// Pixels of an output.
    pub(super) const fn pixels(&self) -> usize {
        self.output[0] as usize * self.output[1] as usize
    }

    /// Entries of the window.
    pub(super) const fn entries(&self) -> usize {
        self.kernel[0] as usize * self.kernel[1] as usize
    }

    pub(super) fn arg(&self) -> WindowLaunch {
        WindowLaunch::new(
            self.input[0],
            self.input[1],
            self.output[0],
            self.output[1],
            self.kernel[0],
            self.kernel[1],
            self.stride[0],
            self.stride[1],
            self.padding[0],
            self.padding[1],
            self.dilation[0],
            self.dilation[1],
        )
    }
}
