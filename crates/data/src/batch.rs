//! A batch of images.

use crate::image::Image;

/// A batch of images of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageBatch {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) planes: Vec<f32>,
    pub(crate) labels: Vec<usize>,
    pub(crate) indices: Vec<usize>,
    pub(crate) mix: Option<Mix>,
}

/// What [`MixUp`](crate::MixUp) did to a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// The share of each sample's own class; the rest belongs to its partner's.
    pub shares: Vec<f32>,
    /// The class of each sample's partner.
    pub partner_labels: Vec<usize>,
}

impl ImageBatch {
    /// The number of samples.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether the batch is empty; a loader never delivers such a batch.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The shape of [`planes`](Self::planes): `[samples, 3, height, width]`.
    #[must_use]
    pub const fn shape(&self) -> [usize; 4] {
        [self.labels.len(), Image::CHANNELS, self.height, self.width]
    }

    /// The normalized images, sample by sample, red before green before blue, row by row.
    #[must_use]
    pub fn planes(&self) -> &[f32] {
        &self.planes
    }

    /// The class of each sample.
    #[must_use]
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// The index of each sample in the loader's source.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// How the samples were mixed, if they were.
    #[must_use]
    pub const fn mix(&self) -> Option<&Mix> {
        self.mix.as_ref()
    }

    /// The share of each class in each sample, `[samples, classes]`: 1 for its own class, or
    /// what [`MixUp`](crate::MixUp) made of it.
    ///
    /// # Panics
    /// If `classes` is not above every label.
    #[must_use]
    pub fn soft_labels(&self, classes: usize) -> Vec<f32> {
        let mut shares = vec![0.0; classes * self.len()];
        for (at, &label) in self.labels.iter().enumerate() {
            assert!(label < classes, "label {label} is none of {classes} classes");
            let row = &mut shares[at * classes..][..classes];
            match &self.mix {
                None => row[label] = 1.0,
                Some(mix) => {
                    row[label] += mix.shares[at];
                    row[mix.partner_labels[at]] += 1.0 - mix.shares[at];
                }
            }
        }
        shares
    }
}
