//! A layer's grid and sizes, and the slices that belong to it, checked once.

use std::fmt;

use updraft_simd::{Isa, Products};

use super::activation::Activation;
use crate::grid::Grid;

/// The grid, sizes and activation of a layer.
///
/// It computes, for every sample `n` and output `o`,
///
/// ```text
/// y(n,o) = bias(o) + Σ_i [ base(i,o)·φ(x(n,i)) + scaler(i,o)·Σ_j spline(i,j,o)·B_j(x(n,i)) ]
/// ```
///
/// # Source
/// Liu et al. 2024, arXiv:2404.19756, equations 2.10 to 2.12.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerGeometry {
    grid: Grid,
    in_features: usize,
    out_features: usize,
    activation: Activation,
    products: Products,
}

/// The parameters of a layer, row by row.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weights<'a> {
    /// Coefficients of the splines, `[in_features, bases, out_features]`.
    pub spline: &'a [f32],
    /// Weights of the base branch, `[in_features, out_features]`; without them there is none.
    pub base: Option<&'a [f32]>,
    /// Factors of the splines, `[in_features, out_features]`; without them 1.
    pub scaler: Option<&'a [f32]>,
    /// Initial values of the outputs, `[out_features]`; without it 0.
    pub bias: Option<&'a [f32]>,
}

/// The destinations of gradients; those that are `None` are not computed.
#[derive(Debug, Default)]
pub struct Gradients<'a> {
    /// Of the input, `[batch, in_features]`.
    pub x: Option<&'a mut [f32]>,
    /// Of the coefficients, `[in_features, bases, out_features]`.
    pub spline: Option<&'a mut [f32]>,
    /// Of the base weights, `[in_features, out_features]`.
    pub base: Option<&'a mut [f32]>,
    /// Of the scaler, `[in_features, out_features]`.
    pub scaler: Option<&'a mut [f32]>,
    /// Of the bias, `[out_features]`.
    pub bias: Option<&'a mut [f32]>,
}

/// Errors of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerError {
    /// A layer has at least one input and one output.
    NoFeatures {
        /// Inputs.
        in_features: usize,
        /// Outputs.
        out_features: usize,
    },
    /// The weights exceed the address space.
    TooLarge {
        /// Inputs.
        in_features: usize,
        /// Outputs.
        out_features: usize,
        /// Coefficients of an edge.
        bases: usize,
    },
    /// The grid was made for another number of features.
    GridFeatures {
        /// The grid's.
        grid: usize,
        /// The layer's inputs.
        in_features: usize,
    },
    /// A slice does not fit.
    Length {
        /// Which one.
        name: &'static str,
        /// How many numbers it should have.
        expected: usize,
        /// How many it has.
        actual: usize,
    },
    /// The input is not a number of whole samples.
    Samples {
        /// Numbers in the input.
        actual: usize,
        /// Numbers of a sample.
        in_features: usize,
    },
    /// A gradient was requested for a parameter that the layer does not have.
    NoParameter {
        /// Which one.
        name: &'static str,
    },
    /// The CPU lacks the instructions.
    Isa {
        /// The requested set.
        isa: Isa,
    },
}

impl fmt::Display for LayerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoFeatures { in_features, out_features } => write!(
                formatter,
                "a layer needs inputs and outputs, got {in_features} and {out_features}"
            ),
            Self::TooLarge { in_features, out_features, bases } => write!(
                formatter,
                "{in_features} inputs, {out_features} outputs and {bases} coefficients an edge are \
                 more weights than memory has addresses for"
            ),
            Self::GridFeatures { grid, in_features } => write!(
                formatter,
                "the grid has knots for {grid} features, the layer has {in_features} inputs"
            ),
            Self::Length { name, expected, actual } => {
                write!(formatter, "expected {expected} numbers in `{name}`, got {actual}")
            }
            Self::Samples { actual, in_features } => write!(
                formatter,
                "{actual} numbers in `x` are no whole samples of {in_features} features"
            ),
            Self::NoParameter { name } => write!(
                formatter,
                "a gradient of `{name}` was asked for, but the layer has no `{name}`"
            ),
            Self::Isa { isa } => {
                write!(formatter, "this CPU has no {isa}; `Isa::detect` returns what it has")
            }
        }
    }
}

impl std::error::Error for LayerError {}

impl LayerGeometry {
    /// A layer of `in_features` inputs and `out_features` outputs over a grid.
    ///
    /// # Errors
    /// [`LayerError`] for a layer without inputs or outputs, with more weights than the
    /// address space holds, or a grid for other features.
    pub fn try_new(
        grid: Grid,
        in_features: usize,
        out_features: usize,
        activation: Activation,
    ) -> Result<Self, LayerError> {
        check_sizes(in_features, out_features, grid.bases())?;
        if let Some(features) = grid.features()
            && features != in_features
        {
            return Err(LayerError::GridFeatures { grid: features, in_features });
        }
        let products = Products::F32;
        Ok(Self { grid, in_features, out_features, activation, products })
    }

    /// The knots.
    #[must_use]
    pub const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Inputs.
    #[must_use]
    pub const fn in_features(&self) -> usize {
        self.in_features
    }

    /// Outputs.
    #[must_use]
    pub const fn out_features(&self) -> usize {
        self.out_features
    }

    /// The function of the base branch.
    #[must_use]
    pub const fn activation(&self) -> Activation {
        self.activation
    }

    /// The same layer with these products: of [`Products::Bf16`], large layers of splines of degrees 1 to
    /// 3 over equal intervals round the values of all functions, the coefficients and the gradients of
    /// outputs to bf16, if the processor multiplies them in less time than those that are not zero in
    /// f32. Sums stay in f32.
    ///
    /// A coefficient that is infinite then makes its output NaN or infinite in every sample, and a gradient
    /// of an output that is not finite reaches all coefficients of that output. Coefficients above
    /// 3.39e38 count as infinite. Convolutions stay in f32.
    #[must_use]
    pub fn with_products(self, products: Products) -> Self {
        Self { products, ..self }
    }

    /// The numbers that are multiplied.
    #[must_use]
    pub const fn products(&self) -> Products {
        self.products
    }

    /// Edges: `in_features · out_features`.
    #[must_use]
    pub const fn edges(&self) -> usize {
        self.in_features * self.out_features
    }

    /// Products of one sample on one edge: one per basis that can be non-zero at a position, and
    /// the base branch if there is one.
    pub(crate) fn taps(&self, weights: &Weights<'_>) -> usize {
        self.grid.degree() + 1 + usize::from(weights.base.is_some())
    }

    /// Checks the parameters, and returns the number of samples in `x`.
    pub(crate) fn check(&self, weights: &Weights<'_>, x: &[f32]) -> Result<usize, LayerError> {
        let edges = self.edges();
        length("spline", edges * self.grid.bases(), weights.spline)?;
        for (name, slice) in [("base", weights.base), ("scaler", weights.scaler)] {
            slice.map_or(Ok(()), |slice| length(name, edges, slice))?;
        }
        weights.bias.map_or(Ok(()), |bias| length("bias", self.out_features, bias))?;
        self.samples(x)
    }

    /// Returns the number of samples in `x`.
    pub(crate) fn samples(&self, x: &[f32]) -> Result<usize, LayerError> {
        if !x.len().is_multiple_of(self.in_features) {
            let (actual, in_features) = (x.len(), self.in_features);
            return Err(LayerError::Samples { actual, in_features });
        }
        Ok(x.len() / self.in_features)
    }

    /// Checks the lengths of the gradients.
    pub(crate) fn check_gradients(
        &self,
        weights: &Weights<'_>,
        batch: usize,
        gradients: &Gradients<'_>,
    ) -> Result<(), LayerError> {
        let edges = self.edges();
        for (name, expected, slice, is_there) in [
            ("x", batch * self.in_features, &gradients.x, true),
            ("spline", edges * self.grid.bases(), &gradients.spline, true),
            ("base", edges, &gradients.base, weights.base.is_some()),
            ("scaler", edges, &gradients.scaler, weights.scaler.is_some()),
            ("bias", self.out_features, &gradients.bias, weights.bias.is_some()),
        ] {
            let Some(slice) = slice else { continue };
            if !is_there {
                return Err(LayerError::NoParameter { name });
            }
            length(name, expected, slice)?;
        }
        Ok(())
    }
}

/// Checks that there are inputs and outputs, and not more weights than the address space holds.
pub(crate) fn check_sizes(
    in_features: usize,
    out_features: usize,
    bases: usize,
) -> Result<(), LayerError> {
    if in_features == 0 || out_features == 0 {
        return Err(LayerError::NoFeatures { in_features, out_features });
    }
    // In addition to coefficients an edge has a base weight. Products of these numbers, and of
    // them with lengths of slices, do not overflow then.
    let rows = in_features.checked_mul(bases + 1);
    let weights = rows.and_then(|rows| rows.checked_mul(out_features));
    if weights.is_none_or(|weights| weights > isize::MAX as usize / size_of::<f32>()) {
        return Err(LayerError::TooLarge { in_features, out_features, bases });
    }
    Ok(())
}

/// Checks the length of a slice.
pub(crate) fn length(name: &'static str, expected: usize, slice: &[f32]) -> Result<(), LayerError> {
    let actual = slice.len();
    if actual == expected { Ok(()) } else { Err(LayerError::Length { name, expected, actual }) }
}
