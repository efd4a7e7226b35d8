//! The features of a table's rows: embeddings of categories, and numbers or their periodic embeddings.

mod backward;
mod forward;
#[cfg(test)]
mod tests;

pub(crate) use backward::RowGradients;

/// Numbers that a row of work space is a multiple of: whole panels of every instruction set.
const PANEL: usize = 32;

/// Rows of a piece: sums of a gradient are added piece by piece, so that their order does not depend
/// on the number of threads.
pub(crate) const ROWS: usize = 32;

/// The embeddings of the categories of a column, `[classes, size]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Embeddings<'a> {
    pub(crate) vectors: &'a [f32],
    pub(crate) size: usize,
}

/// Each number `x` as `relu([sin 2πfx, cos 2πfx]·W + b)`, with separate frequencies `f` for each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Periodic<'a> {
    /// `[numbers, count]`
    pub(crate) frequencies: &'a [f32],
    pub(crate) count: usize,
    /// `W`, `[2 · count, size]`
    pub(crate) weight: &'a [f32],
    /// `b`, `[size]`
    pub(crate) bias: &'a [f32],
}

impl Periodic<'_> {
    pub(crate) const fn size(&self) -> usize {
        self.bias.len()
    }

    /// Numbers from row to row of outputs in work space.
    const fn pitch(&self) -> usize {
        self.size().next_multiple_of(PANEL)
    }
}

/// Rows and what makes features of them: the embeddings of all columns, then those of all numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowFeatures<'a> {
    /// `[rows, columns]`, each less than the classes of its column.
    pub(crate) classes: &'a [u32],
    /// `[rows, width]`
    pub(crate) numbers: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) embeddings: &'a [Embeddings<'a>],
    /// If there is none, the numbers are features themselves.
    pub(crate) periodic: Option<Periodic<'a>>,
}

impl RowFeatures<'_> {
    /// The numbers of a row.
    pub(crate) fn numbers_of_row(&self) -> usize {
        self.numbers.len() / self.rows
    }

    /// Features of the categories of a row.
    fn categories(&self) -> usize {
        self.embeddings.iter().map(|column| column.size).sum()
    }

    /// Features of a row.
    pub(crate) fn features(&self) -> usize {
        let each = self.periodic.map_or(1, |periodic| periodic.size());
        self.categories() + each * self.numbers_of_row()
    }

    /// Sines and cosines of a row, `[numbers, 2 · count]`.
    pub(crate) fn waves(&self) -> usize {
        self.periodic.map_or(0, |periodic| 2 * periodic.count * self.numbers_of_row())
    }
}
