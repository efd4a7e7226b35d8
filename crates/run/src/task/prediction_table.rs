//! The predictions of rows as a table: for each target a column of its value, and one for each
//! quantile, or for the probability of each class or label.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;

use updraft_data::{DataError, Delimiter, TableWriter};

use super::loaded_model::{Outcome, Predicted, PredictedValue};
use super::table_prediction::{TablePrediction, WrittenTable};
use crate::error::RunError;
use crate::irregular_output::refuse_irregular;

/// The bytes that are read of an existing table beyond several times its header, for quotes.
const QUOTES: u64 = 4096;

/// The columns of a table of predictions.
#[derive(Debug, Clone)]
pub struct PredictionColumns {
    header: Vec<String>,
    targets: Vec<TargetColumns>,
}

/// A target whose predictions become columns.
pub(in crate::task) struct ColumnsOf<'a> {
    pub(in crate::task) name: &'a str,
    /// What is between two labels.
    pub(in crate::task) separator: char,
    /// The classes or labels.
    pub(in crate::task) words: &'a [String],
    /// The levels of the quantiles.
    pub(in crate::task) levels: &'a [f32],
}

/// The columns of a target.
#[derive(Debug, Clone)]
struct TargetColumns {
    /// What is between two labels.
    separator: char,
    /// The place of each class or label among the columns of probabilities.
    places: HashMap<String, usize>,
}

impl PredictionColumns {
    /// The columns of targets.
    pub(in crate::task) fn new<'a>(
        targets: impl IntoIterator<Item = ColumnsOf<'a>>,
    ) -> Result<Self, RunError> {
        let mut columns = Self { header: Vec::new(), targets: Vec::new() };
        for ColumnsOf { name, separator, words, levels } in targets {
            columns.header.push(name.to_owned());
            columns.header.extend(levels.iter().map(|level| format!("{name}-quantile-{level}")));
            columns.header.extend(words.iter().map(|word| format!("{name}-probability-{word}")));
            let places = words.iter().cloned().zip(0..).collect();
            columns.targets.push(TargetColumns { separator, places });
        }
        let mut names = BTreeSet::new();
        match columns.header.iter().find(|name| !names.insert(*name)) {
            None => Ok(columns),
            Some(twice) => {
                let reason = format!(
                    "two columns of the predictions would have the name `{twice}`; leave out --out \
                     for predictions as lines"
                );
                Err(RunError::Unusable { reason })
            }
        }
    }

    /// The fields of the row of a sample; empty for a sample that is no row.
    #[must_use]
    pub fn record(&self, row: &Predicted) -> Vec<String> {
        let Outcome::Targets(targets) = &row.outcome else { return Vec::new() };
        let mut record = Vec::with_capacity(self.header.len());
        for (target, columns) in targets.iter().zip(&self.targets) {
            columns.add(&target.value, &mut record);
        }
        record
    }
}

impl PredictionColumns {
    /// Returns an error for an output that exists and does not begin with these columns.
    fn refuse_other(&self, request: &TablePrediction) -> Result<(), RunError> {
        let path = &request.output;
        refuse_irregular(path)?;
        if !path.is_file() {
            return Ok(());
        }
        let delimiter = if request.delimiter() == Delimiter::Tab { "\t" } else { "," };
        // Quotes are around any field that needs them, and doubled within it.
        let header = format!("{}\n", self.header.join(delimiter)).replace('"', "");
        let mut start = Vec::new();
        let most = 4 * header.len() as u64 + QUOTES;
        let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut start));
        read.map_err(|cause| RunError::io("read", path, cause))?;
        let start = String::from_utf8_lossy(&start).replace('"', "");
        if start.is_empty() || start.starts_with(&header) {
            return Ok(());
        }
        let reason = format!(
            "`{}` exists and has other columns than the predictions of this run; name another file, \
             or remove it",
            path.display()
        );
        Err(RunError::Unusable { reason })
    }
}

impl TargetColumns {
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
        if let PredictedValue::Number { quantiles, .. } = value {
            record.extend(quantiles.iter().map(|quantile| quantile.value.to_string()));
        }
        record.append(&mut probabilities);
    }
}

/// A table of predictions that is being written; its file appears when it is finished.
#[derive(Debug)]
pub struct PredictionTable {
    writer: TableWriter,
    written: WrittenTable,
}

impl PredictionTable {
    /// Begins the output with its header; missing folders are created.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for an existing file with other columns, which no prediction of this
    /// run has written, or for something that is not a regular file, and [`RunError::Io`] for a file that cannot be written.
    pub fn create(
        request: &TablePrediction,
        columns: &PredictionColumns,
    ) -> Result<Self, RunError> {
        columns.refuse_other(request)?;
        let mut writer =
            TableWriter::create(&request.output, request.delimiter()).map_err(unwritten)?;
        writer.write(&columns.header).map_err(unwritten)?;
        let written = WrittenTable { rows: 0, columns: columns.header.len() };
        Ok(Self { writer, written })
    }

    /// The rows so far.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.written.rows
    }

    /// Adds the fields of a row, of [`PredictionColumns::record`].
    ///
    /// # Errors
    /// [`RunError::Io`] for a file that cannot be written, or a row of another number of fields.
    pub fn add(&mut self, record: &[String]) -> Result<(), RunError> {
        self.writer.write(record).map_err(unwritten)?;
        self.written.rows += 1;
        Ok(())
    }

    /// Completes the file.
    ///
    /// # Errors
    /// [`RunError::Io`] for a file that cannot be written; there is none then.
    pub fn finish(self) -> Result<WrittenTable, RunError> {
        self.writer.finish().map_err(unwritten)?;
        Ok(self.written)
    }
}

/// The error of a file that the system does not write.
fn unwritten(error: DataError) -> RunError {
    match error {
        DataError::Write { path, cause } => RunError::Io { action: "write", path, cause },
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use updraft_trainer::Unit;

    use super::*;
    use crate::task::{PredictedTarget, Quantile};

    #[test]
    fn quantiles_are_columns_after_their_number() {
        let of = |name, levels| ColumnsOf { name, separator: '|', words: &[], levels };
        let columns = PredictionColumns::new([of("n", &[]), of("q", &[0.1, 0.5])]).expect("named");
        assert_eq!(columns.header, ["n", "q", "q-quantile-0.1", "q-quantile-0.5"]);
        let unit = Unit::Of("q".into());
        let number =
            |value, quantiles| PredictedValue::Number { value, unit: unit.clone(), quantiles };
        let quantile = |level, value| Quantile { level, value };
        let quantiles = number(2.5, vec![quantile(0.1, 1.25), quantile(0.5, 2.5)]);
        assert_eq!((quantiles.quantile(0.1), quantiles.quantile(0.2)), (Some(1.25), None));
        let target = |name: &str, value| PredictedTarget { name: name.to_owned(), value };
        let targets = vec![target("n", number(7.0, Vec::new())), target("q", quantiles)];
        let row = Predicted { sample: "row 1".to_owned(), outcome: Outcome::Targets(targets) };
        assert_eq!(columns.record(&row), ["7", "2.5", "1.25", "2.5"]);
        let json = serde_json::to_value(&row.outcome).expect("JSON");
        let levels =
            serde_json::json!([{"level": 0.1, "value": 1.25}, {"level": 0.5, "value": 2.5}]);
        assert_eq!(json["targets"][1]["number"]["quantiles"], levels);
        assert!(json["targets"][0]["number"].get("quantiles").is_none());
        let same = PredictionColumns::new([of("q", &[0.1]), of("q-quantile-0.1", &[])]);
        assert!(same.expect_err("the same name").to_string().contains("`q-quantile-0.1`"));
    }
}
