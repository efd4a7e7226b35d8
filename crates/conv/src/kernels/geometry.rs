//! The shape of a convolution, checked once.

use std::fmt;

use updraft_simd::Products;

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

    /// The size of the output, if the groups divide the channels and the kernel fits the input.
    fn output(&self) -> Result<[usize; D], GeometryError> {
        let Self { channels, groups, input, kernel, stride, padding, dilation, .. } = *self;
        if channels.iter().any(|channels| !channels.is_multiple_of(groups)) {
            return Err(GeometryError::Groups { groups, channels });
        }
        let mut output = [0; D];
        for (axis, output) in output.iter_mut().enumerate() {
            let numbers = [input, kernel, stride, padding, dilation].map(|of| of[axis]);
            *output = windows_along(axis_in_errors::<D>(axis), numbers)?;
        }
        Ok(output)
    }
}

/// The number of windows on an axis, from `[input, kernel, stride, padding, dilation]`.
pub(super) fn windows_along(
    axis: usize,
    [input, kernel, stride, padding, dilation]: [usize; 5],
) -> Result<usize, GeometryError> {
    let span = dilation.checked_mul(kernel - 1).and_then(|reach| reach.checked_add(1));
    let padded = padding.checked_mul(2).and_then(|both| both.checked_add(input));
    let (Some(span), Some(padded)) = (span, padded) else {
        return Err(GeometryError::TooLarge);
    };
    if span > padded {
        return Err(GeometryError::Kernel { axis, span, padded });
    }
    Ok((padded - span) / stride + 1)
}

/// The axis of an error: height and width are 0 and 1 for images and volumes, depth is 2.
pub(super) const fn axis_in_errors<const D: usize>(axis: usize) -> usize {
    [2, 0, 1][3 - D + axis]
}

/// Checks sizes that have names by depth, height and width.
pub(super) fn at_least_one<const D: usize>(
    sizes: &[([&'static str; 3], [usize; D])],
) -> Result<(), GeometryError> {
    for (names, sizes) in sizes {
        if let Some(axis) = sizes.iter().position(|&size| size == 0) {
            return Err(GeometryError::Zero { name: names[3 - D + axis] });
        }
    }
    Ok(())
}

pub(super) const INPUT: [&str; 3] = ["input depth", "input height", "input width"];
pub(super) const STRIDE: [&str; 3] =
    ["stride along the depth", "vertical stride", "horizontal stride"];
pub(super) const DILATION: [&str; 3] =
    ["dilation along the depth", "vertical dilation", "horizontal dilation"];
const KERNEL: [&str; 3] = ["kernel depth", "kernel height", "kernel width"];

/// The shape of a convolution of volumes; axes are depth, height and width, and the batch may be
/// empty.
pub type Conv3dShape = ConvShape<3>;

/// A [`ConvShape`] that was checked, with the size of its output.
///
/// All tensors are contiguous, row by row:
/// - input: `[batch, channels[0], ..input]`
/// - weights: `[channels[1], channels[0] / groups, ..kernel]`
/// - output: `[batch, channels[1], ..output]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvGeometry<const D: usize = 2> {
    shape: ConvShape<D>,
    output: [usize; D],
    forced: Option<Algorithm>,
    is_direct: bool,
    products: Products,
}

/// A [`Conv3dShape`] that was checked.
pub type Conv3dGeometry = ConvGeometry<3>;

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

impl<const D: usize> ConvGeometry<D> {
    /// Checks a shape.
    ///
    /// # Errors
    /// [`GeometryError`] for an empty tensor (the batch of volumes may be empty), groups that do not
    /// divide the channels, or a kernel that is larger than the padded input.
    pub fn try_new(shape: ConvShape<D>) -> Result<Self, GeometryError> {
        const { assert!(D == 2 || D == 3, "an image or a volume") };
        for (name, value) in [
            ("batch", if D == 2 { shape.batch } else { 1 }),
            ("input channels", shape.channels[0]),
            ("output channels", shape.channels[1]),
            ("groups", shape.groups),
        ] {
            if value == 0 {
                return Err(GeometryError::Zero { name });
            }
        }
        let ConvShape { input, kernel, stride, dilation, .. } = shape;
        at_least_one(&[(INPUT, input), (KERNEL, kernel), (STRIDE, stride), (DILATION, dilation)])?;
        let output = shape.output()?;
        let geometry =
            Self { shape, output, forced: None, is_direct: false, products: Products::F32 };
        if geometry.fits() { Ok(geometry) } else { Err(GeometryError::TooLarge) }
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

    /// The same with products of these numbers, where kernels have them: factors that are rounded to
    /// bf16 are multiplied by algorithms of their own, and only where that is faster.
    #[must_use]
    pub const fn with_products(self, products: Products) -> Self {
        Self { products, ..self }
    }

    /// The same for another number of samples.
    pub(super) fn with_batch(self, batch: usize) -> Self {
        Self { shape: ConvShape { batch, ..self.shape }, ..self }
    }

    /// What products multiply.
    pub(super) const fn products(&self) -> Products {
        self.products
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
    pub const fn shape(&self) -> &ConvShape<D> {
        &self.shape
    }

    /// The size of the output.
    #[must_use]
    pub const fn output(&self) -> [usize; D] {
        self.output
    }

    /// Numbers in the input.
    #[must_use]
    pub fn input_len(&self) -> usize {
        let ConvShape { batch, channels, input, .. } = self.shape;
        batch * channels[0] * input.iter().product::<usize>()
    }

    /// Numbers in the weights.
    #[must_use]
    pub fn weight_len(&self) -> usize {
        let ConvShape { channels, groups, kernel, .. } = self.shape;
        channels[1] * (channels[0] / groups) * kernel.iter().product::<usize>()
    }

    /// Numbers in the output.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.shape.batch * self.shape.channels[1] * self.output.iter().product::<usize>()
    }

    /// Floating-point operations of one pass; a multiplication with its addition counts two.
    #[must_use]
    pub fn operations(&self) -> usize {
        let ConvShape { channels, groups, kernel, .. } = self.shape;
        2 * self.output_len() * (channels[0] / groups) * kernel.iter().product::<usize>()
    }

    /// Whether kernels can address one padded sample with 32 bits, and slices the tensors.
    fn fits(&self) -> bool {
        let ConvShape { batch, channels, kernel, input, padding, dilation, .. } = self.shape;
        let side = |axis: usize| {
            // The output's gradient is padded by at most the kernel's span.
            let span = dilation[axis].checked_mul(kernel[axis])?;
            self.output[axis].max(input[axis]).checked_add(padding[axis].max(span).checked_mul(2)?)
        };
        let times = |product: Option<usize>, number: usize| product?.checked_mul(number);
        // A vector may be read or padded beyond the last channel.
        let most = channels[0].max(channels[1]).checked_add(64);
        let sample = (0..D).try_fold(most, |product, axis| Some(times(product, side(axis)?)));
        let sample = sample.flatten();
        let all = times(times(sample, batch.max(1)), 4);
        let weights = kernel.into_iter().fold(times(most, 64), times);
        let weights = most.and_then(|most| times(weights, most));
        sample.is_some_and(|sample| sample < u32::MAX as usize)
            && [all, weights].iter().all(|n| n.is_some_and(|n| n < isize::MAX as usize))
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
