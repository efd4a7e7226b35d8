//! A trained network that predicts the rows of a file.

use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{ColumnKind, Delimiter, Table, TableEncoder, TableSchema};
use updraft_precision::Policy;
use updraft_trainer::Unit;

use super::TablePlan;
use super::data::{features, inputs, refuse_bad_numbers, scale, with_file_features};
use super::data_plan::{DataPlan, FilesPlan};
use super::model::Regressor;
use crate::error::RunError;
use crate::task::{Outcome, Predicted, Quantity, Serving};

/// The batch size of prediction, which limits the memory for large files.
const ROWS_AT_ONCE: usize = 4096;

/// A trained network with the encoding of its rows.
#[derive(Debug)]
pub(super) struct RowPredictor<N> {
    network: N,
    data: DataPlan,
    /// Of the features.
    encoder: TableEncoder,
    /// The mean and the standard deviation of the target.
    scale: (f64, f64),
    target: String,
    policy: Policy,
    device: Device,
}

impl<N: Regressor> RowPredictor<N> {
    /// `encoder` is that of the features and the target.
    pub(super) fn new(
        network: N,
        own: &TablePlan,
        encoder: &TableEncoder,
        policy: Policy,
        device: Device,
    ) -> Self {
        let target = own.data.target().to_owned();
        Self {
            network,
            data: own.data.clone(),
            scale: scale(encoder, &target),
            encoder: encoder.without(&target),
            target,
            policy,
            device,
        }
    }

    /// The rows of a file, with columns found by their names in a header, or by position.
    fn read(&self, path: &Path) -> Result<Table, RunError> {
        let (files, mut schema, delimiter) = match &self.data {
            DataPlan::Files(files) => (Some(files), features(files), files.delimiter),
            DataPlan::Formula { .. } => (None, self.encoder.schema().clone(), Delimiter::of(path)),
        };
        let columns = files.and_then(|files| files.columns.as_deref());
        schema.header =
            self.places(&Table::first_record(path, delimiter)?, columns, &schema, path)?;
        let table = Table::read(path, delimiter, schema)?;
        refuse_bad_numbers(&table, None, (path, delimiter))?;
        match files {
            Some(files) => of_file(table, files, path),
            None => Ok(table),
        }
    }

    /// The names of a file's columns if its first record is a row; `None` if it is a header.
    ///
    /// A row has the columns of the run's files, with or without the target, or the features if the
    /// run's files have headers.
    fn places(
        &self,
        first: &[String],
        columns: Option<&[String]>,
        schema: &TableSchema,
        path: &Path,
    ) -> Result<Option<Vec<String>>, RunError> {
        let names: Vec<String> = match columns {
            Some(columns) => columns.to_vec(),
            None => schema.columns.iter().map(|column| column.name.clone()).collect(),
        };
        if first.iter().any(|field| names.contains(field)) {
            return Ok(None);
        }
        let others = names.iter().filter(|name| **name != self.target);
        let mut layouts = [others.cloned().collect(), names.clone()].into_iter();
        let found = layouts.find(|layout: &Vec<String>| layout.len() == first.len());
        let is_number = |name: &String| {
            let mut columns = schema.columns.iter();
            columns.any(|column| column.name == *name && column.kind == ColumnKind::Number)
        };
        match (columns, found) {
            (Some(_), Some(layout)) => Ok(Some(layout)),
            (Some(_), None) => Err(RunError::Input {
                path: path.to_owned(),
                cause: format!(
                    "its first line names no column of the run and has {} fields, where a row has \
                     {}: the `data.columns` of the run's plan without `{}`",
                    first.len(),
                    names.len() - 1,
                    self.target
                )
                .into(),
            }),
            // A header with other names: reading it reports the missing one.
            (None, found) => Ok(found.filter(|layout| {
                layout.iter().zip(first).all(|(name, field)| {
                    let is_missing = schema.missing.contains(field);
                    !is_number(name) || is_missing || field.parse::<f64>().is_ok()
                })
            })),
        }
    }
}

impl<N: Regressor> Serving for RowPredictor<N> {
    fn classes(&self) -> &[String] {
        &[]
    }

    /// Predicts the target of every row of a table.
    fn predict(&self, path: &Path) -> Result<Vec<Predicted>, RunError> {
        if !path.exists() {
            let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(RunError::io("read", path, cause));
        }
        let table = self.read(path)?;
        let values = inputs(&self.encoder, &table, &self.target)?;
        let width = values.len() / table.rows();
        let mut predictions: Vec<f64> = Vec::with_capacity(table.rows());
        for rows in values.chunks(ROWS_AT_ONCE * width) {
            let rows = TensorData::new(rows.to_vec(), [rows.len() / width, width]);
            let rows = Tensor::<2>::from_data(rows, &self.device).cast(self.policy.compute);
            let output = self.network.predict(rows).cast(self.policy.output);
            predictions.extend(output.into_data().iter::<f64>());
        }
        let (mean, std) = self.scale;
        if let Some(row) = predictions.iter().position(|value| !(value * std + mean).is_finite()) {
            let cause = format!("the model's answer for row {} is not finite", row + 1).into();
            return Err(RunError::Input { path: path.to_owned(), cause });
        }
        let predicted = |(row, value): (usize, f64)| Predicted {
            sample: format!("{} row {}", path.display(), row + 1),
            outcome: Outcome::Quantities(vec![Quantity {
                name: self.target.clone(),
                value: value * std + mean,
                unit: Unit::Of(self.target.clone().into()),
            }]),
        };
        Ok(predictions.into_iter().enumerate().map(predicted).collect())
    }
}

/// The rows of a file with the features for the file, if the run has them.
fn of_file(table: Table, files: &FilesPlan, path: &Path) -> Result<Table, RunError> {
    let name = |path: &PathBuf| path.file_name().map(std::ffi::OsStr::to_owned);
    let own = name(&path.to_owned());
    match files.files.iter().position(|file| name(file) == own) {
        Some(file) => with_file_features(table, files, file),
        None if !files.file_features => Ok(table),
        None => {
            let names: Vec<String> =
                files.files.iter().map(|file| format!("`{}`", file.display())).collect();
            let cause = format!(
                "the run has a feature for the file that a row is from; name the file as one \
                 of {}",
                names.join(", ")
            );
            Err(RunError::Input { path: path.to_owned(), cause: cause.into() })
        }
    }
}
