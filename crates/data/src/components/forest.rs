//! Disjoint sets of provisional labels (union-find).

/// Provisional labels as trees; the root of a tree is its least label.
#[derive(Debug, Default)]
pub(super) struct Forest {
    parents: Vec<u32>,
}

impl Forest {
    /// A new label of its own.
    ///
    /// A mask that has 2³² pieces takes 200 GB for what is measured of them.
    pub(super) fn add(&mut self) -> u32 {
        let label = u32::try_from(self.parents.len()).expect("fewer than 2^32 pieces");
        self.parents.push(label);
        label
    }

    /// The least label of a label's component.
    pub(super) fn root(&mut self, label: u32) -> u32 {
        let mut at = label;
        while self.parents[at as usize] != at {
            // Each label on the way moves up by one.
            let up = self.parents[self.parents[at as usize] as usize];
            self.parents[at as usize] = up;
            at = up;
        }
        at
    }

    /// Makes two labels one component, and returns its least label.
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
