//! A trained network that predicts the targets of a file's rows.

use std::path::Path;

use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::{Device, FloatDType, Tensor};
use updraft_data::{ColumnKind, ColumnSchema, EncodedRows, RowEncoder, Table, TableSchema};
use updraft_precision::Policy;
use updraft_trainer::Unit;

use super::data::too_far;
use super::data_plan::DataPlan;
use super::files::file_features;
use super::learn::{Learn, Target, place_rows};
use super::model::{RowModel, RowNetwork};
use super::outputs::ROWS_AT_ONCE;
use super::source_plan::{FilesPlan, Source};
use super::targets::TargetCode;
use crate::error::RunError;
use crate::operation::{LayerNames, layer_names};
use crate::task::{
    ClassProbability, LabelProbability, LoadedModel, Outcome, Predicted, PredictedTarget,
    PredictedValue,
};

/// The encodings of a run's features and targets.
#[derive(Debug)]
pub(super) struct Coding {
    pub(super) encoder: RowEncoder,
    pub(super) codes: Vec<TargetCode>,
}

/// A trained network with the encoding of its rows.
#[derive(Debug)]
pub(super) struct RowPredictor<N> {
    model: RowModel<N>,
    data: DataPlan,
    learn: Learn,
    coding: Coding,
    policy: Policy,
    device: Device,
}

impl<N: RowNetwork> RowPredictor<N> {
    pub(super) fn new(
        model: RowModel<N>,
        data: DataPlan,
        learn: Learn,
        coding: Coding,
        (policy, device): (Policy, Device),
    ) -> Self {
        Self { model, data, learn, coding, policy, device }
    }

    /// The rows of a file, with columns found by their names in a header, or by position.
    fn read(&self, path: &Path) -> Result<Table, RunError> {
        let mut schema = self.coding.encoder.schema().clone();
        let delimiter = self.data.source.delimiter();
        let files = self.data.source.with_file_features();
        let added: Vec<String> = files.into_iter().flat_map(file_features).collect();
        schema.columns.retain(|column| !added.contains(&column.name));
        schema.header = self.places(&Table::first_record(path, delimiter)?, &schema, path)?;
        let mut table = Table::read(path, delimiter, schema)?;
        if let Some(files) = files {
            let own = file_of(files, path)?;
            for (at, name) in added.into_iter().enumerate() {
                let value = f64::from(u8::from(at + 1 == own));
                let rows = table.rows();
                table = table.with_numbers(name, vec![value; rows])?;
            }
        }
        Ok(table)
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
        let columns = match &self.data.source {
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

    /// The predictions for some rows, one list per row.
    fn predict_rows(
        &self,
        rows: &EncodedRows,
        range: std::ops::Range<usize>,
    ) -> Vec<Vec<PredictedTarget>> {
        let classes = range.clone().flat_map(|row| rows.classes(row)).map(|&class| class as i32);
        let numbers = range.clone().flat_map(|row| rows.numbers(row)).copied();
        let input = (classes.collect(), numbers.collect());
        let (classes, numbers) = place_rows(input, range.len(), &self.device);
        let numbers = numbers.cast(self.policy.compute);
        let outputs = self.policy.scope(|| self.model.outputs(classes, numbers));
        let mut predicted: Vec<Vec<PredictedTarget>> = vec![Vec::new(); range.len()];
        let targets = self.learn.targets.iter().zip(&self.coding.codes).zip(outputs);
        for ((target, code), outputs) in targets {
            let outputs = outputs.cast(self.policy.output).cast(FloatDType::F32);
            for (row, value) in values(target, code, &outputs).into_iter().enumerate() {
                predicted[row].push(PredictedTarget { name: target.column.clone(), value });
            }
        }
        predicted
    }
}

/// The names of the features if a record has a field for each of them and a number for each number
/// (at least one); `None` for other records: a header, and reading it reports a missing name.
fn row_of_features(first: &[String], schema: &TableSchema) -> Option<Vec<String>> {
    let is_row = |(column, field): (&ColumnSchema, &String)| {
        schema.missing.contains(field)
            || field.parse::<f64>().is_ok()
            || column.kind != ColumnKind::Number
    };
    let has_numbers = schema.columns.iter().any(|column| column.kind == ColumnKind::Number);
    let is_row = has_numbers
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

/// The prediction of a target for each row.
fn values(target: &Target, code: &TargetCode, outputs: &Tensor<2>) -> Vec<PredictedValue> {
    match code {
        TargetCode::Number { mean, std } => {
            let numbers = target.number(outputs).into_data();
            let unit = Unit::Of(target.column.clone().into());
            let value = |number: f64| PredictedValue::Number {
                value: number * std + mean,
                unit: unit.clone(),
            };
            numbers.iter::<f64>().map(value).collect()
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

impl<N: RowNetwork> LoadedModel for RowPredictor<N> {
    fn layer_names(&self) -> LayerNames {
        layer_names(&self.model)
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    /// Predicts every target of every row of a table, in the order of the rows.
    fn predict(&self, path: &Path) -> Result<Vec<Predicted>, RunError> {
        if !path.exists() {
            let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(RunError::io("read", path, cause));
        }
        let refuse = |cause: String| RunError::Input { path: path.to_owned(), cause: cause.into() };
        let table = self.read(path)?;
        let rows = self.coding.encoder.encode(&table)?;
        for row in 0..rows.rows() {
            if let Some(at) = rows.numbers(row).iter().position(|number| !number.is_finite()) {
                return Err(refuse(too_far(&self.coding.encoder, at, &format!("row {}", row + 1))));
            }
        }
        let mut predicted = Vec::with_capacity(rows.rows());
        for start in (0..rows.rows()).step_by(ROWS_AT_ONCE) {
            let end = rows.rows().min(start + ROWS_AT_ONCE);
            for (row, targets) in (start..end).zip(self.predict_rows(&rows, start..end)) {
                if !targets.iter().all(|target| target.value.is_finite()) {
                    let cause = format!("the model's prediction for row {} is not finite", row + 1);
                    return Err(refuse(cause));
                }
                predicted.push(Predicted {
                    sample: format!("{} row {}", path.display(), row + 1),
                    outcome: Outcome::Targets(targets),
                });
            }
        }
        Ok(predicted)
    }
}
