//! The function of the base branch of an edge.

/// The function `φ` of the base branch: an edge adds `base·φ(x)` to its spline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Activation {
    /// `x / (1 + exp(−x))`, as in the paper (arXiv:2404.19756, equation 2.11).
    #[default]
    Silu,
    /// `x`.
    Identity,
    /// `x`, or 0 where it is not above 0.
    Relu,
}
