//! A trained network that predicts the targets of a file's rows.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::{Device, Tensor};
use serde_json::{Map, Value};
use updraft_data::{
    ColumnKind, ColumnSchema, EncodedRows, RowEncoder, Table, TableBlocks, TableError, TableSchema,
};
use updraft_trainer::{CaptureReport, Unit};

use super::TablesPlan;
use super::column_error::{of_later_header, of_later_table};
use super::data::too_far;
use super::files::file_features;
use super::forward::Forward;
use super::learn::{Learn, Target, place_rows};
use super::outputs::ROWS_AT_ONCE;
use super::source_plan::{FilesPlan, Source};
use super::targets::TargetCode;
use super::typed_row::{ROWS, table_of};
use crate::error::RunError;
use crate::operation::LayerNames;
use crate::task::{
    ClassProbability, ColumnsOf, LabelProbability, LoadedModel, Outcome, Predicted, PredictedRow,
    PredictedTarget, PredictedValue, PredictionColumns, Quantile, SampleBlocks,
};

/// The encodings of a run's features and targets.
#[derive(Debug)]
pub(super) struct Coding {
    pub(super) encoder: RowEncoder,
    /// The columns of the features, with the values that the run's schema accepts.
    pub(super) schema: TableSchema,
    /// The file of that schema.
    pub(super) schema_file: PathBuf,
    pub(super) codes: Vec<TargetCode>,
}

/// A trained network with the encoding of its rows.
#[derive(Debug)]
pub(super) struct RowPredictor<N> {
    pub(super) network: N,
    pub(super) own: TablesPlan,
    pub(super) learn: Learn,
    pub(super) coding: Coding,
    pub(super) device: Device,
}

impl<N: Forward> RowPredictor<N> {
    /// The rows of a file in blocks, with columns found by their names in a header, or by position,
    /// and the features for the file that they are from.
    fn blocks_of(&self, path: &Path) -> Result<(TableBlocks, Vec<(String, f64)>), RunError> {
        let mut schema = self.coding.schema.clone();
        let delimiter = self.own.data.source.delimiter_of_later(path);
        let mut of_file = Vec::new();
        if let Some(files) = self.own.data.source.with_file_features() {
            let own = file_of(files, path)?;
            let value = |at: usize| f64::from(u8::from(at + 1 == own));
            of_file.extend(file_features(files).enumerate().map(|(at, name)| (name, value(at))));
        }
        schema.columns.retain(|column| of_file.iter().all(|(name, _)| *name != column.name));
        let names = |first: &[String]| self.places(first, &schema, path);
        let blocks = TableBlocks::open(path, delimiter, schema.clone(), ROWS_AT_ONCE, names)
            .map_err(|error| of_later_header(error, &schema.missing))?;
        Ok((blocks, of_file))
    }

    /// The predictions for the rows of a table, which `path` names in errors; `before` rows were before
    /// it.
    fn predict_targets(
        &self,
        path: &Path,
        table: &Table,
        before: usize,
    ) -> Result<Vec<Vec<PredictedTarget>>, RunError> {
        let refuse = |cause: String| RunError::Input { path: path.to_owned(), cause: cause.into() };
        let rows = self.coding.encoder.encode(table)?;
        for row in 0..rows.rows() {
            if let Some(at) = rows.numbers(row).iter().position(|number| !number.is_finite()) {
                let place = format!("row {}", before + row + 1);
                return Err(refuse(too_far(&self.coding.encoder, at, &place)));
            }
        }
        let mut predicted = Vec::with_capacity(rows.rows());
        for first in (0..rows.rows()).step_by(ROWS_AT_ONCE) {
            let range = first..rows.rows().min(first + ROWS_AT_ONCE);
            predicted.extend(self.predict_rows_of(&rows, range));
        }
        let is_finite =
            |targets: &Vec<PredictedTarget>| targets.iter().all(|target| target.value.is_finite());
        match predicted.iter().position(|targets| !is_finite(targets)) {
            None => Ok(predicted),
            Some(row) => {
                let row = before + row + 1;
                Err(refuse(format!("the model's prediction for row {row} is not finite")))
            }
        }
    }

    /// The error of a table that is not one of the run's.
    fn refuse(&self, error: TableError) -> RunError {
        let Coding { schema, schema_file, .. } = &self.coding;
        of_later_table(error, schema, schema_file)
    }

    /// The names of a file's columns if its first record is a row; `None` if it is a header.
    ///
    /// A row has the columns of the run's files, with or without the targets, or the features if
    /// the run's files have headers.
    fn places(
        &self,
        first: &[String],
        schema: &TableSchema,
        path: &Path,
    ) -> Result<Option<Vec<String>>, RunError> {
        let columns = match &self.own.data.source {
            Source::Files(FilesPlan { columns, .. }) => columns.as_ref(),
            Source::Generated { .. } => None,
        };
        let Some(columns) = columns else {
            return Ok(row_of_features(first, schema));
        };
        if first.iter().any(|field| columns.contains(field)) {
            return Ok(None);
        }
        let is_target = |name: &String| self.learn.targets.iter().any(|one| one.column == *name);
        let others: Vec<String> = columns.iter().filter(|name| !is_target(name)).cloned().collect();
        if first.len() == columns.len() {
            Ok(Some(columns.clone()))
        } else if first.len() == others.len() {
            Ok(Some(others))
        } else {
            let cause = format!(
                "its first line names no column of the run and has {} fields, where a row has {} \
                 or, without the targets, {}: the `data.columns` of the run's plan",
                first.len(),
                columns.len(),
                others.len()
            );
            Err(RunError::Input { path: path.to_owned(), cause: cause.into() })
        }
    }

    /// The predictions for some of the rows, one list per row.
    fn predict_rows_of(
        &self,
        rows: &EncodedRows,
        range: Range<usize>,
    ) -> Vec<Vec<PredictedTarget>> {
        let classes = range.clone().flat_map(|row| rows.classes(row)).map(|&class| class as i32);
        let numbers = range.clone().flat_map(|row| rows.numbers(row)).copied();
        let input = (classes.collect(), numbers.collect());
        let outputs = self.network.outputs(place_rows(input, range.len(), &self.device));
        let mut predicted: Vec<Vec<PredictedTarget>> = vec![Vec::new(); range.len()];
        let targets = self.learn.targets.iter().zip(&self.coding.codes).zip(outputs);
        for ((target, code), outputs) in targets {
            for (row, value) in values(target, code, &outputs).into_iter().enumerate() {
                predicted[row].push(PredictedTarget { name: target.column.clone(), value });
            }
        }
        predicted
    }
}

/// The names of the features if a record has a field for each of them and what each number, truth
/// value or date needs (at least one); `None` for other records: a header, and reading it reports a
/// missing name.
fn row_of_features(first: &[String], schema: &TableSchema) -> Option<Vec<String>> {
    let is_word =
        |kind: &ColumnKind| matches!(kind, ColumnKind::Category | ColumnKind::MultiLabel { .. });
    let is_row = |(column, field): (&ColumnSchema, &String)| {
        schema.missing.contains(field) || column.kind.takes(field)
    };
    let is_row = schema.columns.iter().any(|column| !is_word(&column.kind))
        && first.len() == schema.columns.len()
        && schema.columns.iter().zip(first).all(is_row);
    is_row.then(|| schema.columns.iter().map(|column| column.name.clone()).collect())
}

/// Which of the run's files a file is, by its name.
fn file_of(files: &FilesPlan, path: &Path) -> Result<usize, RunError> {
    let own = files.files.iter().position(|file| file.file_name() == path.file_name());
    own.ok_or_else(|| {
        let names: Vec<String> =
            files.files.iter().map(|file| format!("`{}`", file.display())).collect();
        let cause = format!(
            "the run has a feature for the file that a row is from; name the file as one of {}",
            names.join(", ")
        );
        RunError::Input { path: path.to_owned(), cause: cause.into() }
    })
}

/// The decimal number of a configuration, which f32 holds in fewer digits than f64.
fn as_written(level: f32) -> f64 {
    level.to_string().parse().expect("a number as Rust writes it")
}

/// The prediction of a target for each row.
fn values(target: &Target, code: &TargetCode, outputs: &Tensor<2>) -> Vec<PredictedValue> {
    match code {
        TargetCode::Number { mean, std } => {
            let numbers = target.number(outputs).into_data();
            let outputs: Vec<f64> = outputs.to_data().iter().collect();
            let in_unit = |number: f64| number * std + mean;
            let unit = Unit::Of(target.column.clone().into());
            let levels = target.loss.levels();
            let value = |(number, row): (f64, &[f64])| PredictedValue::Number {
                value: in_unit(number),
                unit: unit.clone(),
                quantiles: levels
                    .iter()
                    .zip(row)
                    .map(|(&level, &number)| Quantile {
                        level: as_written(level),
                        value: in_unit(number),
                    })
                    .collect(),
            };
            numbers.iter().zip(outputs.chunks_exact(target.head.width())).map(value).collect()
        }
        TargetCode::Classes { classes } | TargetCode::Ordered { classes } => {
            let probabilities = softmax(target.class_logits(outputs), 1).into_data();
            let probabilities: Vec<f32> = probabilities.iter().collect();
            let row = |row: &[f32]| {
                let pairs = classes.iter().zip(row);
                let mut pairs: Vec<ClassProbability> = pairs
                    .map(|(class, &probability)| ClassProbability {
                        class: class.clone(),
                        probability,
                    })
                    .collect();
                pairs.sort_by(|a, b| b.probability.total_cmp(&a.probability));
                PredictedValue::Classes(pairs)
            };
            probabilities.chunks_exact(classes.len()).map(row).collect()
        }
        TargetCode::Labels { labels, thresholds } => {
            let probabilities: Vec<f32> = sigmoid(outputs.clone()).into_data().iter().collect();
            let row = |row: &[f32]| {
                let each = labels.iter().zip(row).zip(thresholds);
                let each = each.map(|((label, &probability), threshold)| LabelProbability {
                    label: label.clone(),
                    probability,
                    applies: probability >= *threshold,
                });
                PredictedValue::Labels(each.collect())
            };
            probabilities.chunks_exact(labels.len()).map(row).collect()
        }
    }
}

impl<N: Forward> LoadedModel for RowPredictor<N> {
    fn layer_names(&self) -> LayerNames {
        self.network.layer_names()
    }

    fn capture(&mut self) -> Result<(), &'static str> {
        self.network.capture()
    }

    fn capture_report(&self) -> Option<CaptureReport> {
        self.network.capture_report()
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    /// Predicts every target of every row of a table, in the order of the rows.
    fn predict(&self, path: &Path) -> Result<Vec<Predicted>, RunError> {
        let mut all = Vec::new();
        self.predict_each(path, &mut |predicted| {
            all.push(predicted);
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    fn predict_each(
        &self,
        path: &Path,
        each: &mut dyn FnMut(Predicted) -> ControlFlow<()>,
    ) -> Result<(), RunError> {
        let mut blocks = RowBlocks::new(self, path);
        while let Some(predicted) = blocks.predict()? {
            if predicted.into_iter().try_for_each(&mut *each).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn blocks<'a>(&'a self, path: &Path) -> Option<Box<dyn SampleBlocks + 'a>> {
        Some(Box::new(RowBlocks::new(self, path)))
    }

    fn prediction_columns(&self) -> Result<PredictionColumns, RunError> {
        let targets = self.own.targets.targets.iter().zip(&self.coding.codes);
        PredictionColumns::new(targets.map(|((name, target), code)| ColumnsOf {
            name,
            separator: target.separator.unwrap_or('|'),
            words: code.words(),
            levels: target.loss.levels(),
        }))
    }

    fn predict_rows(&self, rows: &[Map<String, Value>]) -> Result<Vec<PredictedRow>, RunError> {
        let table = table_of(rows, self.coding.schema.clone()).map_err(|error| match error {
            RunError::Table(error) => self.refuse(error),
            other => other,
        })?;
        let predicted = self.predict_targets(Path::new(ROWS), &table, 0)?;
        Ok(predicted.into_iter().map(|targets| PredictedRow { targets }).collect())
    }
}

/// The rows of a file in blocks of [`ROWS_AT_ONCE`].
struct RowBlocks<'a, N> {
    predictor: &'a RowPredictor<N>,
    path: PathBuf,
    /// The blocks, and the features for the file, after the first call.
    opened: Option<(TableBlocks, Vec<(String, f64)>)>,
    /// The rows of earlier blocks.
    before: usize,
}

impl<'a, N: Forward> RowBlocks<'a, N> {
    fn new(predictor: &'a RowPredictor<N>, path: &Path) -> Self {
        Self { predictor, path: path.to_owned(), opened: None, before: 0 }
    }

    /// The next block, without the features for the file.
    fn read(&mut self) -> Result<Option<Table>, RunError> {
        if self.opened.is_none() {
            if !self.path.exists() {
                let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(RunError::io("read", &self.path, cause));
            }
            self.opened = Some(self.predictor.blocks_of(&self.path)?);
        }
        let Some((blocks, _)) = &mut self.opened else { return Ok(None) };
        blocks.next().transpose().map_err(|error| self.predictor.refuse(error))
    }

    /// The predictions of the rows of the next block.
    fn predict_targets(&mut self) -> Result<Option<Vec<Vec<PredictedTarget>>>, RunError> {
        let Some(mut table) = self.read()? else { return Ok(None) };
        let rows = table.rows();
        for (name, value) in self.opened.iter().flat_map(|(_, of_file)| of_file) {
            table = table.with_numbers(name, vec![*value; rows])?;
        }
        let predicted = self.predictor.predict_targets(&self.path, &table, self.before)?;
        self.before += rows;
        Ok(Some(predicted))
    }
}

impl<N: Forward> SampleBlocks for RowBlocks<'_, N> {
    fn skip(&mut self) -> Result<bool, RunError> {
        let rows = self.read()?.map(|table| table.rows());
        self.before += rows.unwrap_or_default();
        Ok(rows.is_some())
    }

    fn predict(&mut self) -> Result<Option<Vec<Predicted>>, RunError> {
        let before = self.before;
        let Some(predicted) = self.predict_targets()? else { return Ok(None) };
        let of_row = |(row, targets)| Predicted {
            sample: format!("{} row {row}", self.path.display()),
            outcome: Outcome::Targets(targets),
        };
        Ok(Some((before + 1..).zip(predicted).map(of_row).collect()))
    }
}

#[cfg(test)]
mod tests {
    use updraft_models::Head;
    use updraft_testing::devices;

    use super::*;
    use crate::task::tables::loss::TargetLoss;
    use crate::task::tables::target_plan::{TargetKind, TargetPlan};

    #[test]
    fn a_number_has_the_quantiles_of_its_loss_in_its_own_unit() {
        for device in devices() {
            let plan = TargetPlan {
                kind: TargetKind::Number,
                loss: TargetLoss::Quantile { quantiles: vec![0.1, 0.5, 0.9] },
                weight: 1.0,
                missing: Default::default(),
                classes: None,
                separator: None,
            };
            let code = TargetCode::Number { mean: 10.0, std: 2.0 };
            let target = Target::new("y", &plan, Head::Numbers(3)).with_code(&code);
            let outputs = Tensor::from_floats([[-1.0, 0.0, 2.0], [0.0, 1.0, 3.0]], &device);
            let found = values(&target, &code, &outputs);
            let levels =
                |value: &PredictedValue| [0.1, 0.5, 0.9].map(|level| value.quantile(level));
            assert_eq!(
                found.iter().map(levels).collect::<Vec<_>>(),
                [[8.0, 10.0, 14.0].map(Some), [10.0, 12.0, 16.0].map(Some),]
            );
            let middle: Vec<_> = found.iter().map(PredictedValue::number).collect();
            assert_eq!(middle, [Some(10.0), Some(12.0)]);
        }
    }
}
