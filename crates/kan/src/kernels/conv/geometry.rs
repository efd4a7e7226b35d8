//! A convolution's grid and sizes, and the slices that belong to it, checked once.

use crate::grid::Grid;
use crate::kernels::activation::Activation;
use crate::kernels::geometry::{
    Gradients, LayerError, LayerGeometry, Weights, check_sizes, length,
};

use super::error::ConvError;

/// The largest kernel, stride, dilation or padding, in pixels.
pub(super) const MAX_SIZE: usize = 1 << 16;

/// How the kernel moves along one spatial axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ConvAxis {
    /// Taps.
    pub kernel: usize,
    /// Pixels from one output to the next.
    pub stride: usize,
    /// Zeros before the first and after the last pixel. They are zeros of the input: a spline has
    /// a value at 0, which they contribute.
    pub padding: usize,
    /// Pixels from one tap to the next.
    pub dilation: usize,
}

impl ConvAxis {
    /// So many taps, with stride 1, dilation 1 and no padding.
    #[must_use]
    pub const fn new(kernel: usize) -> Self {
        Self { kernel, stride: 1, padding: 0, dilation: 1 }
    }

    /// Pixels from the first tap to the last.
    const fn extent(self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }
}

/// The order of the base branch's function and the sum over taps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum BaseBranch {
    /// `conv(φ(x))`: each tap adds `base·φ(x)`, as an edge of the linear layer does.
    #[default]
    ConvOfActivation,
    /// `φ(conv(x))`: the function of the sum over all taps.
    ActivationOfConv,
}

/// The grid, sizes and settings of a convolution of splines.
///
/// Of the output channel `o` at pixel `p` it computes, over the input channels `c` of its group and
/// the taps `k`, whose pixel is `q = p·stride + k·dilation − padding`,
///
/// ```text
/// y(o,p) = bias(o) + Σ_c Σ_k [ base(c,k,o)·φ(x(c,q)) + scaler(c,k,o)·Σ_j spline(c,k,j,o)·B_j(x(c,q)) ]
/// ```
///
/// with `x = 0` outside the image, or with [`BaseBranch::ActivationOfConv`] the function of the sum
/// in place of the sum of functions. Images are `[batch, channels, pixels]`. An input of the
/// [`Weights`] is a tap of an input channel, in the order `[in_channels, taps]`, and their outputs
/// are those of a group: `spline` is `[in_channels·taps, bases, out_channels / groups]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvGeometry {
    /// A pixel's layer: the grid, and the channels of all groups to the outputs of one.
    pub(crate) pixel: LayerGeometry,
    pub(crate) groups: usize,
    /// Of all three axes; those that the image does not have come first and have one tap.
    pub(crate) axes: [ConvAxis; 3],
    pub(crate) rank: usize,
    pub(crate) base_branch: BaseBranch,
}

/// The sizes of an image and of its output, on three axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shapes {
    pub(crate) batch: usize,
    pub(crate) input: [usize; 3],
    pub(crate) output: [usize; 3],
}

impl Shapes {
    pub(crate) fn in_pixels(&self) -> usize {
        self.input.iter().product()
    }

    pub(crate) fn out_pixels(&self) -> usize {
        self.output.iter().product()
    }
}

impl ConvGeometry {
    /// A convolution of `channels`, `[in_channels, out_channels]`, in `groups`, over 1 to 3 axes.
    ///
    /// A grid with separate knots for each feature has one feature per input channel.
    ///
    /// # Errors
    /// [`ConvError`] for no or more than three axes, a kernel, stride or dilation of 0, groups that
    /// do not divide the channels, a grid for other features, or more weights than the
    /// address space holds.
    pub fn try_new(
        grid: Grid,
        channels: [usize; 2],
        groups: usize,
        axes: &[ConvAxis],
        activation: Activation,
        base_branch: BaseBranch,
    ) -> Result<Self, ConvError> {
        let [in_channels, out_channels] = channels;
        if !(1..=3).contains(&axes.len()) {
            return Err(ConvError::Axes { axes: axes.len() });
        }
        for (axis, own) in axes.iter().enumerate() {
            let ConvAxis { kernel, stride, padding, dilation } = *own;
            for (name, value, least) in [
                ("kernel", kernel, 1),
                ("stride", stride, 1),
                ("dilation", dilation, 1),
                ("padding", padding, 0),
            ] {
                if !(least..=MAX_SIZE).contains(&value) {
                    return Err(ConvError::Axis { axis, name, value });
                }
            }
        }
        let divides = |count: usize| groups > 0 && count.is_multiple_of(groups);
        if in_channels > 0 && out_channels > 0 && !(divides(in_channels) && divides(out_channels)) {
            return Err(ConvError::Groups { groups, in_channels, out_channels });
        }
        let outputs = out_channels / groups.max(1);
        let taps = axes.iter().map(|axis| axis.kernel).product::<usize>();
        // The same limits as a layer whose inputs are the taps of all channels.
        let bases = grid.bases();
        let too_large =
            LayerError::TooLarge { in_features: in_channels, out_features: outputs, bases };
        let inputs = in_channels.checked_mul(taps).ok_or(too_large)?;
        check_sizes(inputs, outputs, bases)?;
        let pixel = LayerGeometry::try_new(grid, in_channels, outputs, activation)?;
        let mut all = [ConvAxis::new(1); 3];
        all[3 - axes.len()..].copy_from_slice(axes);
        Ok(Self { pixel, groups, axes: all, rank: axes.len(), base_branch })
    }

    /// The knots.
    #[must_use]
    pub const fn grid(&self) -> &Grid {
        self.pixel.grid()
    }

    /// Channels of the input.
    #[must_use]
    pub const fn in_channels(&self) -> usize {
        self.pixel.in_features()
    }

    /// Channels of the output.
    #[must_use]
    pub const fn out_channels(&self) -> usize {
        self.pixel.out_features() * self.groups
    }

    /// Groups of channels.
    #[must_use]
    pub const fn groups(&self) -> usize {
        self.groups
    }

    /// The spatial axes, the outermost first.
    #[must_use]
    pub fn axes(&self) -> &[ConvAxis] {
        &self.axes[3 - self.rank..]
    }

    /// Taps of the kernel over all axes.
    #[must_use]
    pub fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// The function of the base branch.
    #[must_use]
    pub const fn activation(&self) -> Activation {
        self.pixel.activation()
    }

    /// The order of the base branch's function and the sum over taps.
    #[must_use]
    pub const fn base_branch(&self) -> BaseBranch {
        self.base_branch
    }

    /// Edges: taps of all input channels, times the output channels of a group.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.in_channels() * self.taps() * self.pixel.out_features()
    }

    /// The output's spatial sizes for an image's.
    ///
    /// # Errors
    /// [`ConvError`] for another number of axes, or a kernel larger than the image with its padding.
    ///
    /// # Example
    /// ```
    /// use updraft_kan::slices::{Activation, BaseBranch, ConvAxis, ConvGeometry, Grid};
    ///
    /// let grid = Grid::uniform(-1.0, 1.0, 5, 3)?;
    /// let axis = ConvAxis { stride: 2, padding: 1, ..ConvAxis::new(3) };
    /// let base = BaseBranch::ConvOfActivation;
    /// let conv = ConvGeometry::try_new(grid, [3, 8], 1, &[axis; 2], Activation::Silu, base)?;
    /// assert_eq!(conv.output_shape(&[32, 7])?, [16, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output_shape(&self, shape: &[usize]) -> Result<Vec<usize>, ConvError> {
        if shape.len() != self.rank {
            return Err(ConvError::Rank { expected: self.rank, actual: shape.len() });
        }
        shape
            .iter()
            .zip(self.axes())
            .enumerate()
            .map(|(axis, (&size, own))| {
                let (padded, extent) = (size.saturating_add(2 * own.padding), own.extent());
                if padded < extent {
                    return Err(ConvError::Kernel { axis, extent, padded });
                }
                Ok((padded - extent) / own.stride + 1)
            })
            .collect()
    }

    /// The sizes of images `x`, `[batch, in_channels, shape]`.
    pub(crate) fn shapes(&self, x: &[f32], shape: &[usize]) -> Result<Shapes, ConvError> {
        self.output_shape(shape)?;
        let sizes = shape.iter().try_fold(self.in_channels(), |all, &size| all.checked_mul(size));
        let image = sizes.unwrap_or(usize::MAX);
        let actual = x.len();
        if image == 0 && actual > 0 || image > 0 && !actual.is_multiple_of(image) {
            return Err(ConvError::Images { actual, image });
        }
        self.shapes_of(actual.checked_div(image).unwrap_or(0), shape)
    }

    /// The sizes of so many images.
    pub(crate) fn shapes_of(&self, batch: usize, shape: &[usize]) -> Result<Shapes, ConvError> {
        let output = self.output_shape(shape)?;
        let on_three = |shape: &[usize]| {
            let mut all = [1; 3];
            all[3 - shape.len()..].copy_from_slice(shape);
            all
        };
        Ok(Shapes { batch, input: on_three(shape), output: on_three(&output) })
    }

    /// Checks the parameters.
    pub(crate) fn check(&self, weights: &Weights<'_>) -> Result<(), ConvError> {
        let edges = self.edges();
        length("spline", edges * self.grid().bases(), weights.spline)?;
        for (name, slice) in [("base", weights.base), ("scaler", weights.scaler)] {
            slice.map_or(Ok(()), |slice| length(name, edges, slice))?;
        }
        weights.bias.map_or(Ok(()), |bias| length("bias", self.out_channels(), bias))?;
        Ok(())
    }

    /// Checks the lengths of the gradients.
    pub(crate) fn check_gradients(
        &self,
        weights: &Weights<'_>,
        numbers: usize,
        gradients: &Gradients<'_>,
    ) -> Result<(), ConvError> {
        let edges = self.edges();
        for (name, expected, slice, is_there) in [
            ("x", numbers, &gradients.x, true),
            ("spline", edges * self.grid().bases(), &gradients.spline, true),
            ("base", edges, &gradients.base, weights.base.is_some()),
            ("scaler", edges, &gradients.scaler, weights.scaler.is_some()),
            ("bias", self.out_channels(), &gradients.bias, weights.bias.is_some()),
        ] {
            let Some(slice) = slice else { continue };
            if !is_there {
                return Err(LayerError::NoParameter { name }.into());
            }
            length(name, expected, slice)?;
        }
        Ok(())
    }

    /// The taps' positions on the three axes, in the order of the weights.
    pub(crate) fn places(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let [depth, height, width] = self.axes.map(|axis| axis.kernel);
        (0..depth * height * width)
            .map(move |tap| [tap / (height * width), tap / width % height, tap % width])
    }
}

#[cfg(test)]
mod tests {
    use updraft_simd::Isa;

    use super::*;
    use crate::kernels::conv::conv_forward;
    use crate::kernels::scratch::Scratch;

    #[test]
    fn what_makes_no_convolution_is_refused() {
        let make = |channels, groups, axes: &[ConvAxis]| {
            let branch = BaseBranch::default();
            ConvGeometry::try_new(
                Grid::uniform(-1.0, 1.0, 5, 3).unwrap(),
                channels,
                groups,
                axes,
                Activation::Silu,
                branch,
            )
        };
        let axis = ConvAxis::new(3);
        let message = |channels, groups, axes: &[ConvAxis]| {
            make(channels, groups, axes).unwrap_err().to_string()
        };
        assert_eq!(message([1, 1], 1, &[]), "a convolution has 1 to 3 spatial axes, got 0");
        assert_eq!(
            message([6, 8], 4, &[axis]),
            "4 groups do not divide 6 input and 8 output channels"
        );
        assert_eq!(
            message([6, 8], 0, &[axis]),
            "0 groups do not divide 6 input and 8 output channels"
        );
        let wrong = [axis, ConvAxis { stride: 0, ..axis }];
        let expected = "the stride of spatial axis 1 is 0; it has to be from 1 to 65536";
        assert_eq!(message([1, 1], 1, &wrong), expected);
        assert_eq!(message([1, 0], 1, &[axis]), "a layer needs inputs and outputs, got 3 and 0");
        let huge = ConvAxis::new(1 << 16);
        assert!(
            message([1 << 40, 8], 1, &[huge; 3])
                .ends_with("more weights than memory has addresses for")
        );

        let conv = make([2, 3], 1, &[axis, axis]).unwrap();
        let error = conv.output_shape(&[2, 9]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the kernel spans 3 pixels of spatial axis 0, the image with its padding has 2"
        );
        assert_eq!(conv.output_shape(&[9]), Err(ConvError::Rank { expected: 2, actual: 1 }));
        let spline = vec![0.5; conv.edges() * 8];
        let weights = Weights { spline: &spline, ..Weights::default() };
        let (isa, mut scratch, mut y) = (Isa::Portable, Scratch::new(), [7.0; 4]);
        let refused =
            conv_forward(isa, &conv, weights, &[0.0; 17], &[3, 3], &mut y, &mut scratch, 1);
        assert_eq!(refused, Err(ConvError::Images { actual: 17, image: 18 }));
        let refused =
            conv_forward(isa, &conv, weights, &[0.0; 18], &[3, 3], &mut y, &mut scratch, 1);
        let length = LayerError::Length { name: "y", expected: 3, actual: 4 };
        assert_eq!(refused, Err(ConvError::Layer(length)));
        assert_eq!(y, [7.0; 4]);
    }
}
