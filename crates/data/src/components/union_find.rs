//! Disjoint sets of provisional labels (union-find).

/// Provisional labels as trees; the root of a tree is its smallest label.
#[derive(Debug, Default)]
pub(super) struct UnionFind {
    parents: Vec<u32>,
}

impl UnionFind {
    /// Creates a new label.
    ///
    /// A mask with 2³² pieces would take 200 GB for their measurements.
    pub(super) fn add(&mut self) -> u32 {
        let label = u32::try_from(self.parents.len()).expect("fewer than 2^32 pieces");
        self.parents.push(label);
        label
    }

    /// The smallest label of a label's component.
    pub(super) fn root(&mut self, label: u32) -> u32 {
        let mut at = label;
        while self.parents[at as usize] != at {
            // Path halving.
            let up = self.parents[self.parents[at as usize] as usize];
            self.parents[at as usize] = up;
            at = up;
        }
        at
    }

    /// Merges two labels into one component, and returns its smallest label.
    pub(super) fn join(&mut self, one: u32, other: u32) -> u32 {
        let (one, other) = (self.root(one), self.root(other));
        let (least, most) = (one.min(other), one.max(other));
        self.parents[most as usize] = least;
        least
    }

    pub(super) const fn len(&self) -> usize {
        self.parents.len()
    }
}
