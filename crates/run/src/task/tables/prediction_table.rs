//! The predictions of rows as a table: for each target a column of its value, and one for the
//! probability of each class or label.

use std::collections::{BTreeSet, HashMap};

use updraft_data::{DataError, TableWriter};

use super::target_plan::TargetsPlan;
use super::targets::TargetCode;
use crate::error::RunError;
use crate::task::{PredictedTarget, PredictedValue, TablePrediction, WrittenTable};

/// A table that is being written.
pub(super) struct PredictionTable<'a> {
    writer: TableWriter,
    targets: Vec<TargetColumns<'a>>,
    written: WrittenTable,
}

/// The columns of a target.
struct TargetColumns<'a> {
    /// What is between two labels.
    separator: char,
    /// The place of each class or label among the columns of probabilities.
    places: HashMap<&'a str, usize>,
}

impl<'a> PredictionTable<'a> {
    /// Begins the table with its header.
    pub(super) fn create(
        request: &TablePrediction,
        plan: &TargetsPlan,
        codes: &'a [TargetCode],
    ) -> Result<Self, RunError> {
        let (mut header, mut targets) = (Vec::new(), Vec::new());
        for ((name, target), code) in plan.targets.iter().zip(codes) {
            let words = code.words();
            header.push(name.clone());
            header.extend(words.iter().map(|word| format!("{name}-probability-{word}")));
            targets.push(TargetColumns {
                separator: target.separator.unwrap_or('|'),
                places: words.iter().enumerate().map(|(at, word)| (word.as_str(), at)).collect(),
            });
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = header.iter().find(|name| !names.insert(*name)) {
            let reason = format!(
                "two columns of the predictions would have the name `{twice}`; leave out --out for \
                 predictions as lines"
            );
            return Err(RunError::Unusable { reason });
        }
        let writer =
            TableWriter::create(&request.output, request.delimiter()).map_err(unwritten)?;
        let written = WrittenTable { rows: 0, columns: header.len() };
        let mut table = Self { writer, targets, written };
        table.writer.write(&header).map_err(unwritten)?;
        Ok(table)
    }

    /// The rows so far.
    pub(super) const fn rows(&self) -> u64 {
        self.written.rows
    }

    /// Adds the predictions of a row.
    pub(super) fn add(&mut self, row: &[PredictedTarget]) -> Result<(), RunError> {
        let mut record = Vec::with_capacity(self.written.columns);
        for (target, columns) in row.iter().zip(&self.targets) {
            columns.add(&target.value, &mut record);
        }
        self.written.rows += 1;
        self.writer.write(&record).map_err(unwritten)
    }

    /// Completes the file.
    pub(super) fn finish(self) -> Result<WrittenTable, RunError> {
        self.writer.finish().map_err(unwritten)?;
        Ok(self.written)
    }
}

impl TargetColumns<'_> {
    fn add(&self, value: &PredictedValue, record: &mut Vec<String>) {
        let mut probabilities = vec![String::new(); self.places.len()];
        let mut set = |word: &str, probability: f32| {
            probabilities[self.places[word]] = probability.to_string();
        };
        record.push(match value {
            PredictedValue::Number { value, .. } => value.to_string(),
            PredictedValue::Classes(classes) => {
                classes.iter().for_each(|class| set(&class.class, class.probability));
                classes.first().map_or_else(String::new, |class| class.class.clone())
            }
            PredictedValue::Labels(labels) => {
                labels.iter().for_each(|label| set(&label.label, label.probability));
                let applying = labels.iter().filter(|label| label.applies);
                let applying: Vec<&str> = applying.map(|label| label.label.as_str()).collect();
                applying.join(&self.separator.to_string())
            }
        });
        record.append(&mut probabilities);
    }
}

/// The error of a file that the system does not write.
fn unwritten(error: DataError) -> RunError {
    match error {
        DataError::Write { path, cause } => RunError::Io { action: "write", path, cause },
        other => other.into(),
    }
}
