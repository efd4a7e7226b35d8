//! The buffers of a layer on a device, and their sizes.

use cubecl::prelude::*;

use super::convolution::{ConvImages, ImageSizesLaunch, Layout, Rows, no_images};
use super::layer::CubeLayer;

/// A layer's input and weights, row by row.
///
/// Instead of parameters that the layer does not have, any buffer: it is not read.
pub(crate) struct Inputs {
    /// `[batch, in_features]`.
    pub(crate) x: BufferArg,
    /// `[in_features, bases, out_features]`.
    pub(crate) spline: BufferArg,
    /// `[in_features, out_features]`.
    pub(crate) base: BufferArg,
    /// `[in_features, out_features]`.
    pub(crate) scaler: BufferArg,
}

/// The sizes of a pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(super) batch: u32,
    pub(super) inputs: u32,
    pub(super) outputs: u32,
    /// The type of an index into the largest buffer.
    pub(super) address: AddressType,
    /// Where samples are in images, instead of in rows.
    images: Option<(ConvImages, Rows)>,
}

impl Sizes {
    /// The sizes of a layer for a batch of at least one sample.
    ///
    /// # Panics
    /// If one of them is above 2³².
    pub(crate) fn new(layer: CubeLayer, batch: usize, inputs: usize, outputs: usize) -> Self {
        let size = |size: usize| u32::try_from(size).expect("at most 2^32 samples and features");
        let spline = inputs * outputs * layer.bases();
        let largest = spline.max(batch * inputs).max(batch * outputs).max(inputs * layer.knots());
        Self {
            batch: size(batch),
            inputs: size(inputs),
            outputs: size(outputs),
            address: AddressType::from_len(largest),
            images: None,
        }
    }

    /// The sizes of each group of a convolution for some rows, whose numbers are in images.
    pub(crate) fn of_images(layer: CubeLayer, images: ConvImages, rows: Rows) -> Self {
        let inputs = rows.channels * images.taps();
        let edges = images.groups() as usize * inputs as usize * rows.outputs as usize;
        let spline = edges * layer.bases();
        Self {
            batch: rows.count,
            inputs,
            outputs: rows.outputs,
            address: images.address.max(AddressType::from_len(spline)),
            images: Some((images, rows)),
        }
    }

    /// The sizes of the gradient of the input: in images, samples are pixels of all of them, and
    /// inputs are channels.
    #[cfg(feature = "autodiff")]
    pub(super) fn of_input_gradient(self) -> Self {
        let Some((images, rows)) = self.images else { return self };
        let rows = Rows { first: 0, ..rows };
        let (batch, inputs) = (images.all_pixels(), rows.channels);
        Self { batch, inputs, images: Some((images, rows)), ..self }
    }

    /// Cubes along the first axis, where a group has so many.
    pub(super) fn across(&self, of_group: u32) -> usize {
        let groups = self.images.map_or(1, |(images, _)| images.groups());
        groups as usize * of_group as usize
    }

    /// What kernels are compiled for.
    pub(super) fn layout(&self) -> Layout {
        self.images.map_or(Layout::Rows, |(images, _)| images.layout())
    }

    /// The arguments of [`Layout::Images`], or numbers that are not read.
    pub(super) fn images(&self) -> ImageSizesLaunch {
        self.images.map_or_else(no_images, |(images, rows)| images.sizes(rows))
    }
}

/// The destinations of the gradients.
#[cfg(feature = "autodiff")]
pub(crate) struct WeightGradients {
    /// Of the coefficients, without their splines' factors, `[in_features, bases, out_features]`.
    pub(crate) spline: BufferArg,
    /// Of the base weights, `[in_features, out_features]`, or any buffer if there are none.
    pub(crate) base: BufferArg,
}
