//! Windows over images, and tensors of any rank viewed as images.

use serde::{Deserialize, Serialize};
use updraft_conv::slices::{ConvGeometry, ConvShape};

use super::error::OperationError;
use crate::network::Attribute;

/// A window that moves over an image: kernel, stride, padding and dilation, by height and width.
///
/// A tensor with one axis after its channels is an image of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Rows and columns of the window.
    pub kernel: [usize; 2],
    /// Rows and columns from one window to the next.
    pub stride: [usize; 2],
    /// Rows above and below, columns left and right.
    pub padding: [usize; 2],
    /// Rows and columns from one entry of the window to the next.
    pub dilation: [usize; 2],
}

impl Window {
    /// Stride and dilation 1, no padding.
    #[must_use]
    pub const fn new(kernel: [usize; 2]) -> Self {
        Self { kernel, stride: [1; 2], padding: [0; 2], dilation: [1; 2] }
    }

    /// Its attributes in ONNX.
    pub(super) fn attributes(&self) -> Vec<(&'static str, Attribute)> {
        let both = |numbers: [usize; 2]| Attribute::Integers(numbers.map(|n| n as i64).to_vec());
        let pads = [self.padding, self.padding].concat().into_iter().map(|n| n as i64).collect();
        let mut attributes = vec![
            ("kernel_shape", both(self.kernel)),
            ("strides", both(self.stride)),
            ("pads", Attribute::Integers(pads)),
        ];
        // onnxruntime's integer mean does not accept a dilation, not even 1.
        if self.dilation != [1, 1] {
            attributes.push(("dilations", both(self.dilation)));
        }
        attributes
    }

    /// The window over a tensor, and the shape of the output.
    pub(super) fn over(
        self,
        x: &[usize],
        outputs: usize,
        groups: usize,
    ) -> Result<(ConvGeometry, Vec<usize>), OperationError> {
        let [channels, height, width] = plane(x);
        let Self { kernel, stride, padding, dilation } = self;
        let shape = ConvShape::new(1, [channels, outputs], [height, width], kernel);
        let geometry =
            ConvGeometry::try_new(ConvShape { groups, stride, padding, dilation, ..shape })
                .map_err(|cause| OperationError::Geometry { cause })?;
        let [rows, columns] = geometry.output();
        let mut y = x.to_vec();
        y[0] = outputs;
        match (x.len(), &mut y[1..]) {
            (3, sides) => sides.copy_from_slice(&[rows, columns]),
            (2, [side]) if rows == 1 => *side = columns,
            _ if [rows, columns] == [height, width] => {}
            _ => return Err(OperationError::Axes { shape: x.to_vec() }),
        }
        Ok((geometry, y))
    }
}

/// Whether two shapes differ only in axes of length 1 at their ends.
pub(crate) fn is_alike(a: &[usize], b: &[usize]) -> bool {
    let common = a.len().min(b.len());
    a[..common] == b[..common] && a[common..].iter().chain(&b[common..]).all(|&side| side == 1)
}

/// Channels and pixels of a tensor.
#[cfg(feature = "cube")]
pub(crate) fn channels_and_pixels(shape: &[usize]) -> [usize; 2] {
    [shape[0], shape[1..].iter().product()]
}

/// Channels, height and width of a tensor as an image.
pub(crate) fn plane(shape: &[usize]) -> [usize; 3] {
    match *shape {
        [channels, width] => [channels, 1, width],
        [channels, height, ref rest @ ..] => [channels, height, rest.iter().product()],
        [channels] => [channels, 1, 1],
        [] => [1; 3],
    }
}
