//! The shape of a convolution of volumes, checked once.

use crate::kernels::geometry::{ConvShape, GeometryError};
use crate::kernels::strategy::{Algorithm, Pass};

/// The shape of a convolution of volumes; axes are depth, height and width, and the batch may be
/// empty.
pub type Conv3dShape = ConvShape<3>;

/// A [`Conv3dShape`] that was checked, with the size of its output.
///
/// All tensors are contiguous:
/// - input: `[batch, channels[0], depth, height, width]`
/// - weights: `[channels[1], channels[0] / groups, depth, height, width]`
/// - output: `[batch, channels[1], depth, height, width]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv3dGeometry {
    shape: Conv3dShape,
    output: [usize; 3],
    forced: Option<Algorithm>,
}

impl Conv3dGeometry {
    /// Checks a shape.
    ///
    /// # Errors
    /// [`GeometryError`] for a size of 0 other than the batch's, groups that do not divide the
    /// channels, or a kernel that is larger than the padded input.
    pub fn try_new(shape: Conv3dShape) -> Result<Self, GeometryError> {
        let Conv3dShape { channels, groups, input, kernel, stride, dilation, .. } = shape;
        for (name, value) in [
            ("input channels", channels[0]),
            ("output channels", channels[1]),
            ("groups", groups),
            ("a side of the input", input.into_iter().min().unwrap_or(0)),
            ("a side of the kernel", kernel.into_iter().min().unwrap_or(0)),
            ("a stride", stride.into_iter().min().unwrap_or(0)),
            ("a dilation", dilation.into_iter().min().unwrap_or(0)),
        ] {
            if value == 0 {
                return Err(GeometryError::Zero { name });
            }
        }
        // Of images the axes are 0 and 1.
        let output = shape.output([2, 0, 1])?;
        let geometry = Self { shape, output, forced: None };
        if geometry.fits() { Ok(geometry) } else { Err(GeometryError::TooLarge) }
    }

    /// The same, computed by one algorithm in every pass that it can compute; without it, the
    /// fastest is [chosen](super::strategy_3d) for each pass.
    ///
    /// # Errors
    /// [`GeometryError::Algorithm`] for an algorithm that cannot compute the forward pass.
    pub fn with_algorithm(self, algorithm: Algorithm) -> Result<Self, GeometryError> {
        match super::strategy::refusal(algorithm, &self, Pass::Forward) {
            Some(needs) => Err(GeometryError::Algorithm { algorithm, needs }),
            None => Ok(Self { forced: Some(algorithm), ..self }),
        }
    }

    /// The requested algorithm.
    pub(super) const fn forced(&self) -> Option<Algorithm> {
        self.forced
    }

    /// The requested algorithm.
    #[must_use]
    pub const fn shape(&self) -> &Conv3dShape {
        &self.shape
    }

    /// Depth, height and width of the output.
    #[must_use]
    pub const fn output(&self) -> [usize; 3] {
        self.output
    }

    /// Numbers in the input.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.shape.batch * self.shape.channels[0] * self.shape.input.iter().product::<usize>()
    }

    /// Numbers in the weights.
    #[must_use]
    pub fn weight_len(&self) -> usize {
        let Conv3dShape { channels, groups, kernel, .. } = self.shape;
        channels[1] * (channels[0] / groups) * kernel.iter().product::<usize>()
    }

    /// Numbers in the output.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.shape.batch * self.shape.channels[1] * self.output.iter().product::<usize>()
    }

    /// Whether kernels can address one padded sample with 32 bits, and slices the tensors.
    fn fits(&self) -> bool {
        let Conv3dShape { batch, channels, kernel, input, padding, dilation, .. } = self.shape;
        let side = |axis: usize| {
            // The output's gradient is padded by at most the kernel's span.
            let span = dilation[axis].checked_mul(kernel[axis])?;
            self.output[axis].max(input[axis]).checked_add(padding[axis].max(span).checked_mul(2)?)
        };
        let most = channels[0].max(channels[1]).checked_add(64);
        let product = |numbers: &[Option<usize>]| {
            numbers.iter().try_fold(1_usize, |product, &number| product.checked_mul(number?))
        };
        let sample = product(&[most, side(0), side(1), side(2)]);
        let all = product(&[sample, Some(batch.max(1)), Some(4)]);
        let kernels = kernel.map(Some);
        let weights = product(&[most, most, kernels[0], kernels[1], kernels[2], Some(64)]);
        sample.is_some_and(|sample| sample < u32::MAX as usize)
            && [all, weights].iter().all(|n| n.is_some_and(|n| n < isize::MAX as usize))
    }
}
