//! Batches of rows in memory, with some categories replaced by unknown.

use std::sync::Arc;

use updraft_data::{Collate, DataError, Digest, Draw, EncodedRows, Vocabulary};

use super::targets::TargetValues;
use super::unknown::UnknownShare;

/// Rows whose bytes are hashed at once.
const ROWS_OF_DIGEST: usize = 1024;

/// The encoded rows of a run, training and test.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) features: EncodedRows,
    pub(super) targets: Vec<TargetValues>,
}

/// A subset of the rows of a run.
#[derive(Debug, Clone)]
pub(super) struct RowSet {
    encoded: Arc<Encoded>,
    /// Which.
    rows: Arc<Vec<usize>>,
    unknown_share: UnknownShare,
    fingerprint: String,
}

/// A batch of rows with their targets, on the host.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowBatch {
    /// The index of each row in its set.
    pub(super) indices: Vec<usize>,
    /// Row by row, one class per column of categories.
    pub(super) classes: Vec<i32>,
    /// Row by row.
    pub(super) numbers: Vec<f32>,
    pub(super) targets: Vec<TargetBatch>,
}

/// The values of a target in the rows of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TargetBatch {
    /// The rows of the batch that have the target.
    pub(super) rows: Vec<i32>,
    pub(super) values: BatchValues,
}

/// A value for each of those rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BatchValues {
    /// A class each.
    Classes(Vec<i32>),
    /// Several numbers, or zeros and ones, per row.
    Numbers { width: usize, values: Vec<f32> },
}

impl RowSet {
    pub(super) fn new(
        encoded: Arc<Encoded>,
        rows: Vec<usize>,
        unknown_share: UnknownShare,
    ) -> Self {
        let mut digest = Digest::new("updraft table rows").number(rows.len());
        let mut bytes = Vec::new();
        for rows in rows.chunks(ROWS_OF_DIGEST) {
            bytes.clear();
            for &row in rows {
                let mut add = |bits: u32| bytes.extend_from_slice(&bits.to_le_bytes());
                encoded.features.classes(row).iter().for_each(|&class| add(class));
                let numbers = encoded.features.numbers(row);
                numbers.iter().for_each(|number| add(number.to_bits()));
                encoded.targets.iter().for_each(|target| target.each_bits(row, &mut add));
            }
            digest = digest.bytes(&bytes);
        }
        Self { fingerprint: digest.hex(), encoded, rows: Arc::new(rows), unknown_share }
    }

    /// The number of rows that have one target at least.
    pub(super) fn rows_with_targets(&self) -> usize {
        let targets = &self.encoded.targets;
        let has_some = |&&row: &&usize| targets.iter().any(|target| target.is_there(row));
        self.rows.iter().filter(has_some).count()
    }

    /// The categories that are replaced by unknown.
    pub(super) const fn unknown_share(&self) -> UnknownShare {
        self.unknown_share
    }
}

impl TargetValues {
    /// Whether a row has a value.
    fn is_there(&self, row: usize) -> bool {
        match self {
            Self::Classes(classes) => classes[row].is_some(),
            Self::Numbers(numbers) => numbers[row].is_some(),
            Self::Labels { .. } => true,
        }
    }

    /// Passes on the bits of a row's value.
    fn each_bits(&self, row: usize, add: &mut impl FnMut(u32)) {
        match self {
            Self::Classes(classes) => add(classes[row].unwrap_or(u32::MAX)),
            Self::Numbers(numbers) => add(numbers[row].unwrap_or(f32::NAN).to_bits()),
            Self::Labels { labels, values } => {
                values[row * labels..][..*labels].iter().for_each(|value| add(value.to_bits()));
            }
        }
    }

    /// The numbers of a row's value.
    const fn width(&self) -> usize {
        match self {
            Self::Classes(_) | Self::Numbers(_) => 1,
            Self::Labels { labels, .. } => *labels,
        }
    }

    fn batch(&self, rows: usize) -> TargetBatch {
        let values = match self {
            Self::Classes(_) => BatchValues::Classes(Vec::with_capacity(rows)),
            Self::Numbers(_) => BatchValues::Numbers { width: 1, values: Vec::with_capacity(rows) },
            Self::Labels { labels, .. } => {
                BatchValues::Numbers { width: *labels, values: Vec::with_capacity(rows * labels) }
            }
        };
        TargetBatch { rows: Vec::with_capacity(rows), values }
    }

    /// Appends the value of a row, the `at`-th of the batch, if it has one.
    fn add(&self, row: usize, at: usize, batch: &mut TargetBatch) {
        let is_there = match (self, &mut batch.values) {
            (Self::Classes(classes), BatchValues::Classes(values)) => {
                values.extend(classes[row].map(|class| class as i32));
                classes[row].is_some()
            }
            (Self::Numbers(numbers), BatchValues::Numbers { values, .. }) => {
                values.extend(numbers[row]);
                numbers[row].is_some()
            }
            (Self::Labels { labels, values: all }, BatchValues::Numbers { values, .. }) => {
                values.extend_from_slice(&all[row * labels..][..*labels]);
                true
            }
            _ => unreachable!("a batch is begun by the values that are added to it"),
        };
        if is_there {
            batch.rows.push(at as i32);
        }
    }
}

impl Collate for RowSet {
    type Batch = RowBatch;
    type Scratch = ();

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn name(&self, index: usize) -> String {
        format!("row {index}")
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn settings_fingerprint(&self) -> String {
        let digest = Digest::new("updraft table batches");
        digest.bytes(&self.unknown_share.to_bits().to_le_bytes()).hex()
    }

    fn is_random(&self) -> bool {
        !self.unknown_share.is_none()
    }

    fn undrawn(&self) -> Option<Self> {
        Some(Self { unknown_share: UnknownShare::NONE, ..self.clone() })
    }

    fn sample_bytes(&self) -> usize {
        let row = self.rows[0];
        let Encoded { features, targets } = &*self.encoded;
        let values = targets.iter().map(|target| target.width() + 1).sum::<usize>();
        size_of::<f32>() * (features.classes(row).len() + features.numbers(row).len() + values)
    }

    fn begin(&self, samples: usize) -> RowBatch {
        let Encoded { features, targets } = &*self.encoded;
        let room = |of: fn(&EncodedRows) -> usize| match features.rows() {
            0 => 0,
            _ => samples * of(features),
        };
        RowBatch {
            indices: Vec::with_capacity(samples),
            classes: Vec::with_capacity(room(|rows| rows.classes(0).len())),
            numbers: Vec::with_capacity(room(|rows| rows.numbers(0).len())),
            targets: targets.iter().map(|target| target.batch(samples)).collect(),
        }
    }

    fn add(&self, draw: Draw, (): &mut (), batch: &mut RowBatch) -> Result<(), DataError> {
        let row = self.rows[draw.index];
        let Encoded { features, targets } = &*self.encoded;
        let classes = features.classes(row).iter().map(|&class| class as i32);
        if self.unknown_share.is_none() {
            batch.classes.extend(classes);
        } else {
            let is_unknown = self.unknown_share.drawn(draw);
            let unknown = Vocabulary::UNKNOWN as i32;
            batch.classes.extend(
                classes
                    .enumerate()
                    .map(|(column, class)| if is_unknown(column) { unknown } else { class }),
            );
        }
        batch.numbers.extend_from_slice(features.numbers(row));
        for (target, values) in targets.iter().zip(&mut batch.targets) {
            target.add(row, batch.indices.len(), values);
        }
        batch.indices.push(draw.index);
        Ok(())
    }

    fn announce(&self, next: usize) {
        self.encoded.features.announce(self.rows[next]);
    }

    fn truncate(&self, batch: &mut RowBatch, samples: usize) {
        let held = batch.indices.len().max(1);
        batch.classes.truncate(batch.classes.len() / held * samples);
        batch.numbers.truncate(batch.numbers.len() / held * samples);
        for target in &mut batch.targets {
            let kept = target.rows.partition_point(|&row| (row as usize) < samples);
            target.rows.truncate(kept);
            match &mut target.values {
                BatchValues::Classes(classes) => classes.truncate(kept),
                BatchValues::Numbers { width, values } => values.truncate(kept * *width),
            }
        }
        batch.indices.truncate(samples);
    }
}
