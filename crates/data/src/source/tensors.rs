//! Samples of any shape in memory, as bytes or as numbers.

use updraft_simd::Isa;

use crate::digest::Digest;
use crate::error::{DataError, FormatError};
use crate::kernels::{Affine, append_values, prefetch};
use crate::source::{IdxArray, IdxValues};
use crate::stream::{Collate, Draw};
use crate::tensor_batch::{TargetBatch, TensorBatch};

/// Samples of one shape in memory: bytes that are converted to f32 in a batch, or f32.
///
/// The fingerprint covers every value.
#[derive(Debug, Clone)]
pub struct InMemoryTensors {
    shape: Vec<usize>,
    values: Values,
    targets: Targets,
    samples: usize,
    fingerprint: String,
}

#[derive(Debug, Clone)]
enum Values {
    /// `byte · scale + shift` in a batch.
    Bytes {
        bytes: Vec<u8>,
        affine: Affine,
    },
    Floats(Vec<f32>),
}

/// The targets of samples.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Targets {
    /// No targets, or the samples are their own targets.
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
}

impl InMemoryTensors {
    /// Samples of bytes, `[samples, …shape]`; in a batch each is `(byte / 255 − mean) / std`.
    ///
    /// # Errors
    /// [`DataError::Empty`] for no samples, [`DataError::Values`] for a number of bytes or targets
    /// that does not fit, [`DataError::Setting`] for a mean or standard deviation that is out of
    /// range.
    ///
    /// # Example
    /// ```
    /// use updraft_data::{InMemoryTensors, Loader, StreamConfig, Targets};
    ///
    /// let targets = Targets::Classes(vec![0, 1]);
    /// let samples = InMemoryTensors::from_bytes(2, &[3], vec![0, 51, 255, 255, 51, 0], targets)?;
    /// let loader = Loader::collating(samples, StreamConfig::new(2))?;
    /// let batch = loader.epoch(0).next().expect("one batch")?;
    /// assert!((batch.values()[1] - 0.2).abs() < 1e-6);
    /// # Ok::<(), updraft_data::DataError>(())
    /// ```
    pub fn from_bytes(
        samples: usize,
        shape: &[usize],
        bytes: Vec<u8>,
        targets: Targets,
    ) -> Result<Self, DataError> {
        let values = Values::Bytes { bytes, affine: Affine::normalizing(0.0, 1.0) };
        Self::try_new(samples, shape, values, targets)
    }

    /// Samples of numbers, `[samples, …shape]`, delivered unchanged.
    ///
    /// # Errors
    /// [`DataError::Empty`] and [`DataError::Values`] as [`from_bytes`](Self::from_bytes).
    pub fn from_floats(
        samples: usize,
        shape: &[usize],
        values: Vec<f32>,
        targets: Targets,
    ) -> Result<Self, DataError> {
        Self::try_new(samples, shape, Values::Floats(values), targets)
    }

    /// The images and labels of an IDX pair such as MNIST's, `[samples, …]` and `[samples]`, both
    /// of unsigned bytes; `path` names them in errors.
    ///
    /// # Errors
    /// [`FormatError::Values`] for values of another type, [`FormatError::LabelCount`] for a pair
    /// of different lengths, [`FormatError::Label`] for a label that is not below `classes`; as
    /// [`from_bytes`](Self::from_bytes).
    pub fn from_idx(
        images: IdxArray,
        labels: IdxArray,
        classes: usize,
        path: impl AsRef<std::path::Path>,
    ) -> Result<Self, DataError> {
        let fault = |cause| DataError::Format { path: path.as_ref().to_owned(), cause };
        let bytes = |values| match values {
            IdxValues::U8(bytes) => Ok(bytes),
            other => {
                let (expected, got) = ("unsigned bytes", other.name());
                Err(fault(FormatError::Values { expected, got }))
            }
        };
        let (samples, count) =
            (images.shape.first().copied().unwrap_or(0), labels.shape.first().copied());
        if labels.shape.len() != 1 || count != Some(samples) {
            let labels = count.unwrap_or(0);
            return Err(fault(FormatError::LabelCount { samples, labels }));
        }
        let labels: Vec<usize> = bytes(labels.values)?.into_iter().map(usize::from).collect();
        if let Some(record) = labels.iter().position(|&label| label >= classes) {
            return Err(fault(FormatError::Label { record, label: labels[record], classes }));
        }
        let shape = images.shape.get(1..).unwrap_or_default().to_vec();
        Self::from_bytes(samples, &shape, bytes(images.values)?, Targets::Classes(labels))
    }

    /// Sets the map of bytes to `(byte / 255 − mean) / std`; numbers are left as they are.
    ///
    /// # Errors
    /// [`DataError::Setting`] for a mean that is not finite or a standard deviation that is not
    /// finite and above 0, and for samples that are not bytes.
    pub fn with_normalization(mut self, mean: f32, std: f32) -> Result<Self, DataError> {
        let fault = |name, value: f32, expected: &str| {
            let expected = expected.to_owned();
            Err(DataError::Setting { name, value: value.to_string(), expected })
        };
        if !mean.is_finite() {
            return fault("mean", mean, "a finite number");
        }
        if !(std.is_finite() && std > 0.0) {
            return fault("std", std, "a finite number above 0");
        }
        let Values::Bytes { affine, .. } = &mut self.values else {
            return fault("mean", mean, "samples of bytes; normalize numbers before");
        };
        *affine = Affine::normalizing(mean, std);
        Ok(self)
    }

    /// The shape of one sample.
    #[must_use]
    pub fn sample_shape(&self) -> &[usize] {
        &self.shape
    }

    /// The targets of the samples.
    #[must_use]
    pub const fn targets(&self) -> &Targets {
        &self.targets
    }

    /// The memory of all samples in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.values {
            Values::Bytes { bytes, .. } => bytes.len(),
            Values::Floats(values) => size_of_val(values.as_slice()),
        }
    }

    fn try_new(
        samples: usize,
        shape: &[usize],
        values: Values,
        targets: Targets,
    ) -> Result<Self, DataError> {
        if samples == 0 {
            return Err(DataError::Empty);
        }
        let got = match &values {
            Values::Bytes { bytes, .. } => bytes.len(),
            Values::Floats(values) => values.len(),
        };
        check_count(samples, shape, got)?;
        match &targets {
            Targets::None => {}
            Targets::Classes(classes) => check_count(samples, &[], classes.len())?,
            Targets::Values { shape, values } => check_count(samples, shape, values.len())?,
        }
        let mut digest = Digest::new("updraft tensors in memory").number(samples);
        digest = shape.iter().fold(digest.number(shape.len()), |digest, &side| digest.number(side));
        digest = match &values {
            Values::Bytes { bytes, .. } => digest.text("bytes").bytes(bytes),
            Values::Floats(values) => values.iter().fold(digest.text("f32"), |d, &v| d.float(v)),
        };
        digest = match &targets {
            Targets::None => digest.text("no targets"),
            Targets::Classes(classes) => {
                classes.iter().fold(digest.text("classes"), |digest, &class| digest.number(class))
            }
            Targets::Values { shape, values } => {
                let digest = shape.iter().fold(digest.text("values"), |d, &side| d.number(side));
                values.iter().fold(digest, |digest, &value| digest.float(value))
            }
        };
        let (shape, fingerprint) = (shape.to_vec(), digest.hex());
        Ok(Self { shape, values, targets, samples, fingerprint })
    }

    fn sample_values(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Collate for InMemoryTensors {
    type Batch = TensorBatch;
    type Scratch = ();

    fn len(&self) -> usize {
        self.samples
    }

    fn name(&self, index: usize) -> String {
        format!("sample {index} in memory")
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn settings_fingerprint(&self) -> String {
        let digest = Digest::new("updraft tensors in batches");
        match self.values {
            Values::Bytes { affine, .. } => digest.float(affine.scale).float(affine.shift).hex(),
            Values::Floats(_) => digest.hex(),
        }
    }

    fn sample_bytes(&self) -> usize {
        let target = match &self.targets {
            Targets::None => 0,
            Targets::Classes(_) => size_of::<usize>(),
            Targets::Values { shape, .. } => size_of::<f32>() * shape.iter().product::<usize>(),
        };
        size_of::<f32>() * self.sample_values() + target
    }

    fn begin(&self, samples: usize) -> TensorBatch {
        let targets = match &self.targets {
            Targets::None => TargetBatch::None,
            Targets::Classes(_) => TargetBatch::Classes(Vec::with_capacity(samples)),
            Targets::Values { shape, .. } => {
                let values = Vec::with_capacity(samples * shape.iter().product::<usize>());
                TargetBatch::Values { shape: shape.clone(), values }
            }
        };
        TensorBatch {
            shape: self.shape.clone(),
            values: Vec::with_capacity(self.sample_values() * samples),
            targets,
            indices: Vec::with_capacity(samples),
        }
    }

    fn add(&self, draw: Draw, (): &mut (), batch: &mut TensorBatch) -> Result<(), DataError> {
        let (index, count) = (draw.index, self.sample_values());
        match &self.values {
            Values::Bytes { bytes, affine } => {
                let bytes = &bytes[index * count..][..count];
                append_values(Isa::detect().vectors(), bytes, *affine, &mut batch.values);
            }
            Values::Floats(values) => {
                batch.values.extend_from_slice(&values[index * count..][..count]);
            }
        }
        match (&self.targets, &mut batch.targets) {
            (Targets::Classes(classes), TargetBatch::Classes(batch)) => batch.push(classes[index]),
            (Targets::Values { values, .. }, TargetBatch::Values { shape, values: batch }) => {
                let count = shape.iter().product::<usize>();
                batch.extend_from_slice(&values[index * count..][..count]);
            }
            _ => {}
        }
        batch.indices.push(index);
        Ok(())
    }

    fn announce(&self, next: usize) {
        let count = self.sample_values();
        match &self.values {
            Values::Bytes { bytes, .. } => prefetch(&bytes[next * count..][..count]),
            Values::Floats(values) => prefetch(&values[next * count..][..count]),
        }
    }

    fn truncate(&self, batch: &mut TensorBatch, samples: usize) {
        batch.truncate(samples);
    }
}

fn check_count(samples: usize, shape: &[usize], got: usize) -> Result<(), DataError> {
    let expected = shape.iter().try_fold(samples, |count, &side| count.checked_mul(side));
    if expected == Some(got) {
        return Ok(());
    }
    let (shape, expected) = (shape.to_vec(), expected.unwrap_or(0));
    Err(DataError::Values { samples, shape, expected, got })
}
