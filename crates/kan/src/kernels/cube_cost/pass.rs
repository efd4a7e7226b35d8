//! The sizes of a pass, and the bytes of its buffers.

use super::convolution::ROWS_OF_SUM;
use super::layer::Spacing;
use super::{CubeLayer, evaluation};

/// Bytes of a number of the layer's tensors.
pub(super) const FLOAT: u64 = size_of::<f32>() as u64;

/// A layer and its batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) layer: CubeLayer,
    /// Samples; for images the pixels of the outputs.
    pub(crate) batch: u64,
    /// For images the taps of a group's channels.
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
    /// The images that samples are in, instead of rows.
    pub(crate) images: Option<Images>,
}

/// The images of a group of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Images {
    /// Of the whole batch.
    pub(crate) pixels: u64,
    pub(crate) channels: u64,
    /// Of the kernel.
    pub(crate) taps: u64,
}

impl Pass {
    pub(super) fn rows(&self) -> u64 {
        self.layer.rows() as u64
    }

    pub(super) fn bases(&self) -> u64 {
        self.layer.bases() as u64
    }

    pub(super) fn taps(&self) -> u64 {
        self.layer.taps() as u64
    }

    /// 1 with a base branch, else 0.
    pub(super) fn base_rows(&self) -> u64 {
        u64::from(self.layer.activation.is_some())
    }

    /// Of the input, or its gradient.
    pub(super) fn x_bytes(&self) -> u64 {
        let (samples, inputs, _) = self.of_input_gradient();
        FLOAT * samples * inputs
    }

    /// Samples, inputs and taps of the gradient of the input: of each pixel and channel in images.
    pub(super) fn of_input_gradient(&self) -> (u64, u64, u64) {
        match self.images {
            Some(Images { pixels, channels, taps }) => (pixels, channels, taps),
            None => (self.batch, self.inputs, 1),
        }
    }

    /// Launches of the gradients of weights, and of the bias.
    pub(super) fn parts_of_sum(&self) -> u64 {
        match self.images {
            Some(_) => self.batch.div_ceil(ROWS_OF_SUM as u64),
            None => 1,
        }
    }

    /// Of the outputs, or their gradient.
    pub(super) fn y_bytes(&self) -> u64 {
        FLOAT * self.batch * self.outputs
    }

    /// Of a number for each edge.
    pub(super) fn edge_bytes(&self) -> u64 {
        FLOAT * self.inputs * self.outputs
    }

    /// Of the knots of all inputs, if they are in memory.
    pub(super) fn knot_bytes(&self) -> u64 {
        match self.layer.spacing {
            Spacing::Equal => 0,
            Spacing::PerInput => FLOAT * self.inputs * self.layer.knots() as u64,
        }
    }

    /// Of the coefficients, or their gradient.
    pub(super) fn spline_bytes(&self) -> u64 {
        self.bases() * self.edge_bytes()
    }

    /// Of the coefficients and the base weights, or their gradients.
    pub(super) fn row_bytes(&self) -> u64 {
        self.rows() * self.edge_bytes()
    }

    /// Of coefficients, base weights and factors.
    pub(super) fn weight_bytes(&self) -> u64 {
        self.row_bytes() + u64::from(self.layer.is_scaled) * self.edge_bytes()
    }

    pub(super) fn bias_bytes(&self) -> u64 {
        u64::from(self.layer.has_bias) * FLOAT * self.outputs
    }

    /// Of adding the bias.
    pub(super) fn bias_flops(&self) -> u64 {
        u64::from(self.layer.has_bias) * self.batch * self.outputs
    }

    /// Of multiplying this many coefficients by the factors of their splines.
    pub(super) fn factor_flops(&self, coefficients: u64) -> u64 {
        u64::from(self.layer.is_scaled) * coefficients
    }

    /// Of the values of all rows at a number.
    pub(super) fn value_flops(&self) -> u64 {
        evaluation::value_flops(self.layer)
    }

    /// Of the slopes of all rows at a number, times the gradients of the values.
    pub(super) fn slope_flops(&self) -> u64 {
        evaluation::slope_flops(self.layer)
    }
}
