//! A trained network that predicts the rows of a file.

use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{Table, TableEncoder};
use updraft_precision::Policy;

use super::TablePlan;
use super::data::{inputs, read_files, scale, with_file_features};
use super::data_plan::DataPlan;
use super::model::Regressor;
use crate::error::RunError;
use crate::task::{Outcome, Predicted, Quantity, Serving};

/// Rows of one forward pass, so that the memory of a large file is that of its rows alone.
const ROWS_AT_ONCE: usize = 4096;

/// A trained network with what its rows are encoded by.
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

    /// The rows of a file with the columns of the run's features; others are passed over.
    fn read(&self, path: &Path) -> Result<Table, RunError> {
        let DataPlan::Files(files) = &self.data else {
            let columns = self.encoder.schema().clone();
            return Ok(Table::read(path, updraft_data::Delimiter::of(path), columns)?);
        };
        let mut read = read_files(files, &[path.to_owned()], false)?;
        let table = read.pop().ok_or_else(|| RunError::Input {
            path: path.to_owned(),
            cause: "it has no rows".into(),
        })?;
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
        let predicted = |(row, value): (usize, f64)| Predicted {
            sample: format!("{} row {}", path.display(), row + 1),
            outcome: Outcome::Quantities(vec![Quantity {
                name: self.target.clone(),
                value: value * std + mean,
            }]),
        };
        Ok(predictions.into_iter().enumerate().map(predicted).collect())
    }
}
