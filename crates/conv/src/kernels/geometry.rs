//! The shape of a convolution, checked once.

use std::fmt;

use super::strategy::{Algorithm, Pass};

/// The shape of a convolution over `D` axes; by default height and width.
///
/// A one-dimensional convolution has heights of 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvShape<const D: usize = 2> {
    /// Samples.
    pub batch: usize,
    /// Input and output channels.
    pub channels: [usize; 2],
    /// The number of groups.
    pub groups: usize,
    /// Size of the input.
    pub input: [usize; D],
    /// Size of the kernel.
    pub kernel: [usize; D],
    /// The stride.
    pub stride: [usize; D],
    /// Zeros before and after the input.
    pub padding: [usize; D],
    /// The dilation.
    pub dilation: [usize; D],
}

impl<const D: usize> ConvShape<D> {
    /// One group, stride and dilation 1, no padding.
    #[must_use]
    pub const fn new(
        batch: usize,
        channels: [usize; 2],
        input: [usize; D],
        kernel: [usize; D],
    ) -> Self {
        Self {
            batch,
            channels,
            groups: 1,
            input,
            kernel,
            stride: [1; D],
            padding: [0; D],
            dilation: [1; D],
        }
    }

    /// The size of the output, if the groups divide the channels and the kernel fits the input;
    /// `axes` are those that errors name.
    pub(super) fn output(&self, axes: [usize; D]) -> Result<[usize; D], GeometryError> {
        let Self { channels, groups, input, kernel, stride, padding, dilation, .. } = *self;
        if channels.iter().any(|channels| !channels.is_multiple_of(groups)) {
            return Err(GeometryError::Groups { groups, channels });
        }
        let mut output = [0; D];
        for axis in 0..D {
            let span = dilation[axis]
                .checked_mul(kernel[axis] - 1)
                .and_then(|reach| reach.checked_add(1))
                .ok_or(GeometryError::TooLarge)?;
            let padded = padding[axis]
                .checked_mul(2)
                .and_then(|both| both.checked_add(input[axis]))
                .ok_or(GeometryError::TooLarge)?;
            if span > padded {
                return Err(GeometryError::Kernel { axis: axes[axis], span, padded });
            }
            output[axis] = (padded - span) / stride[axis] + 1;
        }
        Ok(output)
    }
}

/// A [`ConvShape`] that was checked, with the size of its output.
///
/// All tensors are contiguous, row by row:
/// - input: `[batch, channels[0], input[0], input[1]]`
/// - weights: `[channels[1], channels[0] / groups, kernel[0], kernel[1]]`
/// - output: `[batch, channels[1], output[0], output[1]]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvGeometry {
    shape: ConvShape,
    output: [usize; 2],
    forced: Option<Algorithm>,
    is_direct: bool,
}

/// Errors of the shape of a convolution or a pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// A number has to be at least 1.
    Zero {
        /// Which one.
        name: &'static str,
    },
    /// The groups do not divide the channels.
    Groups {
        /// Groups.
        groups: usize,
        /// Input and output channels.
        channels: [usize; 2],
    },
    /// The kernel reaches over the padded input.
    Kernel {
        /// The axis: 0 is height, 1 is width, 2 is depth.
        axis: usize,
        /// The extent of the dilated kernel.
        span: usize,
        /// The extent of the padded input.
        padded: usize,
    },
    /// A pooling window contains no input.
    Padding {
        /// The axis: 0 is height, 1 is width, 2 is depth.
        axis: usize,
        /// Which window.
        output: usize,
    },
    /// The requested algorithm cannot compute the convolution.
    Algorithm {
        /// Which one.
        algorithm: Algorithm,
        /// Its requirement.
        needs: &'static str,
    },
    /// A tensor has more numbers than this machine can address with 32-bit offsets in an image.
    TooLarge,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Zero { name } => write!(formatter, "{name} is 0; it has to be at least 1"),
            Self::Groups { groups, channels: [input, output] } => write!(
                formatter,
                "{groups} groups do not divide {input} input and {output} output channels"
            ),
            Self::Kernel { axis, span, padded } => {
                let side = ["high", "wide", "deep"][axis.min(2)];
                write!(
                    formatter,
                    "the dilated kernel is {span} {side}, the padded input only {padded}"
                )
            }
            Self::Padding { axis, output } => {
                let side = ["height", "width", "depth"][axis.min(2)];
                write!(
                    formatter,
                    "window {output} of the {side} lies in the padding alone; the padding has to \
                     be below the window's size"
                )
            }
            Self::Algorithm { algorithm, needs } => write!(
                formatter,
                "the algorithm `{algorithm}` needs {needs}; leave the choice to `try_new`"
            ),
            Self::TooLarge => formatter.write_str("the tensors are too large to be addressed"),
        }
    }
}

impl std::error::Error for GeometryError {}

impl GeometryError {
    /// The same of the depth, where that was the width of an image.
    pub(super) fn of_depth(self) -> Self {
        match self {
            Self::Kernel { axis: 1, span, padded } => Self::Kernel { axis: 2, span, padded },
            Self::Padding { axis: 1, output } => Self::Padding { axis: 2, output },
            Self::Zero { name: "input width" } => Self::Zero { name: "input depth" },
            Self::Zero { name: "window width" } => Self::Zero { name: "window depth" },
            other => other,
        }
    }
}

impl ConvGeometry {
    /// Checks a shape.
    ///
    /// # Errors
    /// [`GeometryError`] for an empty tensor, groups that do not divide the channels, or a kernel
    /// that is larger than the padded input.
    pub fn try_new(shape: ConvShape) -> Result<Self, GeometryError> {
        for (name, value) in [
            ("batch", shape.batch),
            ("input channels", shape.channels[0]),
            ("output channels", shape.channels[1]),
            ("groups", shape.groups),
            ("input height", shape.input[0]),
            ("input width", shape.input[1]),
            ("kernel height", shape.kernel[0]),
            ("kernel width", shape.kernel[1]),
            ("vertical stride", shape.stride[0]),
            ("horizontal stride", shape.stride[1]),
            ("vertical dilation", shape.dilation[0]),
            ("horizontal dilation", shape.dilation[1]),
        ] {
            if value == 0 {
                return Err(GeometryError::Zero { name });
            }
        }
        let output = shape.output([0, 1])?;
        let geometry = Self { shape, output, forced: None, is_direct: false };
        geometry.check_size()?;
        Ok(geometry)
    }

    /// The same, computed by one algorithm in every pass that it can compute; without it, the
    /// fastest is [chosen](super::strategy()) for each pass.
    ///
    /// # Errors
    /// [`GeometryError::Algorithm`] for an algorithm that cannot compute the forward pass.
    pub fn with_algorithm(self, algorithm: Algorithm) -> Result<Self, GeometryError> {
        match algorithm.refusal(&self, Pass::Forward) {
            Some(needs) => Err(GeometryError::Algorithm { algorithm, needs }),
            None => Ok(Self { forced: Some(algorithm), ..self }),
        }
    }

    /// The same, with every product of the definition computed: never by Winograd's algorithm.
    #[must_use]
    pub const fn with_every_product(self) -> Self {
        Self { is_direct: true, ..self }
    }

    /// The requested algorithm.
    pub(super) const fn forced(&self) -> Option<Algorithm> {
        self.forced
    }

    /// Whether every product is to be computed.
    pub(super) const fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// The requested algorithm.
    #[must_use]
    pub const fn shape(&self) -> &ConvShape {
        &self.shape
    }

    /// Height and width of the output.
    #[must_use]
    pub const fn output(&self) -> [usize; 2] {
        self.output
    }

    /// Numbers in the input.
    #[must_use]
    pub const fn input_len(&self) -> usize {
        let ConvShape { batch, channels, input, .. } = self.shape;
        batch * channels[0] * input[0] * input[1]
    }

    /// Numbers in the weights.
    #[must_use]
    pub const fn weight_len(&self) -> usize {
        let ConvShape { channels, groups, kernel, .. } = self.shape;
        channels[1] * (channels[0] / groups) * kernel[0] * kernel[1]
    }

    /// Numbers in the output.
    #[must_use]
    pub const fn output_len(&self) -> usize {
        self.shape.batch * self.shape.channels[1] * self.output[0] * self.output[1]
    }

    /// Floating-point operations of one pass; a multiplication with its addition counts two.
    #[must_use]
    pub const fn operations(&self) -> usize {
        let ConvShape { channels, groups, kernel, .. } = self.shape;
        2 * self.output_len() * (channels[0] / groups) * kernel[0] * kernel[1]
    }

    /// Kernels address one padded image with 32 bits, and slices end below `isize::MAX` bytes.
    fn check_size(&self) -> Result<(), GeometryError> {
        let ConvShape { batch, channels, kernel, input, padding, dilation, .. } = self.shape;
        let product = |numbers: &[usize]| {
            numbers.iter().try_fold(1_usize, |product, &number| product.checked_mul(number))
        };
        let reach = |axis: usize| {
            // The output's gradient is padded by at most the kernel's span.
            let span = dilation[axis].checked_mul(kernel[axis])?;
            self.output[axis].max(input[axis]).checked_add(padding[axis].max(span).checked_mul(2)?)
        };
        let most = channels[0].max(channels[1]);
        let image = reach(0).zip(reach(1)).and_then(|(rows, columns)| {
            // A vector may be read or padded beyond the last channel.
            product(&[most.checked_add(64)?, rows, columns])
        });
        let weights = product(&[channels[0], channels[1], kernel[0], kernel[1]]);
        let all = image.and_then(|image| product(&[image, batch, 4]));
        let fits = |numbers: Option<usize>, limit: usize| numbers.is_some_and(|n| n < limit);
        if fits(image, u32::MAX as usize)
            && fits(weights, isize::MAX as usize / 64)
            && fits(all, isize::MAX as usize)
        {
            Ok(())
        } else {
            Err(GeometryError::TooLarge)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> ConvShape {
        ConvShape::new(2, [4, 6], [5, 7], [3, 2])
    }

    #[test]
    fn the_output_follows_the_formula() {
        let strided =
            ConvShape { groups: 2, stride: [2, 3], padding: [1, 2], dilation: [2, 1], ..shape() };
        // ⌊(5 + 2 − 5)/2⌋ + 1 = 2 and ⌊(7 + 4 − 2)/3⌋ + 1 = 4.
        let geometry = ConvGeometry::try_new(strided).expect("valid");
        assert_eq!(geometry.output(), [2, 4]);
        assert_eq!(geometry.input_len(), 2 * 4 * 5 * 7);
        assert_eq!(geometry.weight_len(), 6 * 2 * 3 * 2);
        assert_eq!(geometry.output_len(), 2 * 6 * 2 * 4);
        assert_eq!(geometry.operations(), 2 * (2 * 6 * 2 * 4) * 2 * 3 * 2);
    }

    #[test]
    fn what_is_no_convolution_is_refused_with_its_reason() {
        for (shape, said) in [
            (ConvShape { batch: 0, ..shape() }, "batch is 0; it has to be at least 1"),
            (ConvShape { stride: [1, 0], ..shape() }, "horizontal stride is 0"),
            (ConvShape { groups: 4, ..shape() }, "4 groups do not divide 4 input and 6 output"),
            (
                ConvShape { dilation: [3, 1], ..shape() },
                "the dilated kernel is 7 high, the padded input only 5",
            ),
            (ConvShape { padding: [usize::MAX, 0], ..shape() }, "too large"),
            (ConvShape { input: [1 << 20, 1 << 20], ..shape() }, "too large"),
        ] {
            let message = ConvGeometry::try_new(shape).expect_err(said).to_string();
            assert!(message.contains(said), "{message}");
        }
    }
}
