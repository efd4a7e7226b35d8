//! Work space of a thread.

use updraft_simd::Aligned;

/// Work space that grows to what a task needs and is reused by the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct Space {
    /// Pixels of a vector of channels.
    pub(super) columns: Aligned,
    /// The values of their functions, or pixels of the output's gradient.
    pub(super) values: Aligned,
    /// Points of tiles that are multiplied.
    pub(super) points: Aligned,
    /// Products, or the points of the other factor.
    pub(super) products: Aligned,
    /// Results by pixel, or gradients of coefficients.
    pub(super) results: Aligned,
    /// A vector for each trained parameter of the functions.
    pub(super) lanes: Aligned,
}

impl Space {
    /// The allocated memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let Self { columns, values, points, products, results, lanes } = self;
        [columns, values, points, products, results, lanes].map(Aligned::bytes).iter().sum()
    }
}
