//! A batch of samples of any shape.

/// Some samples of one shape, ready for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorBatch {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
    pub(crate) targets: TargetBatch,
    pub(crate) indices: Vec<usize>,
}

/// The targets of the samples of a batch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TargetBatch {
    /// None: the samples are their own target, or there is none.
    None,
    /// A class each.
    Classes(Vec<usize>),
    /// Numbers of the same shape for each sample.
    Values {
        /// The shape of one sample's numbers.
        shape: Vec<usize>,
        /// Sample by sample.
        values: Vec<f32>,
    },
    /// Reads an image per sample.
    Images {
        /// `[channels, height, width]` or `[channels, depth, height, width]`.
        shape: Vec<usize>,
        /// Sample by sample.
        values: Vec<f32>,
    },
    /// One mask per sample: the label of every pixel or voxel.
    Labels {
        /// `[height, width]` or `[depth, height, width]`.
        shape: Vec<usize>,
        /// Sample by sample.
        labels: Vec<u16>,
    },
}

impl TensorBatch {
    /// The number of samples.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether the batch is empty; a loader never delivers such a batch.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The shape of one sample.
    #[must_use]
    pub fn sample_shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers, sample by sample.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The targets.
    #[must_use]
    pub const fn targets(&self) -> &TargetBatch {
        &self.targets
    }

    /// The index of each sample in the loader's set.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// Cuts the batch back to its first samples.
    pub(crate) fn truncate(&mut self, samples: usize) {
        self.values.truncate(samples * self.shape.iter().product::<usize>());
        self.indices.truncate(samples);
        match &mut self.targets {
            TargetBatch::None => {}
            TargetBatch::Classes(classes) => classes.truncate(samples),
            TargetBatch::Values { shape, values } | TargetBatch::Images { shape, values } => {
                values.truncate(samples * shape.iter().product::<usize>());
            }
            TargetBatch::Labels { shape, labels } => {
                labels.truncate(samples * shape.iter().product::<usize>());
            }
        }
    }
}
