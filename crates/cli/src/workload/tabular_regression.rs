//! Tabular regression: opens what a plan calls data, and scales it by its training rows.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use updraft_data::{
    Collate, DataError, Delimiter, Draw, Formula, InMemoryTensors, LastBatch, Loader, Order,
    StreamConfig, Table, TableSchema, TargetBatch, Targets, Workers, formula_samples,
    stratified_split,
};

use super::place::Place;
use crate::config::{DelimiterPlan, FormulaPlan, RegressionPlan, TableDataPlan};

/// Strata of the target that give the same share of their rows to the test.
const STRATA: usize = 10;

/// The rows of a run, scaled, and by what.
pub(crate) struct TableData {
    pub(crate) train: Loader<InMemoryTensors>,
    pub(crate) test: Loader<InMemoryTensors>,
    pub(crate) scaling: Scaling,
}

/// What makes of each column numbers around 0 that deviate by 1; learned from the training rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scaling {
    pub(crate) features: Vec<ColumnScale>,
    pub(crate) target: ColumnScale,
}

/// A column becomes `(x − mean) / std`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColumnScale {
    pub(crate) name: String,
    pub(crate) mean: f64,
    pub(crate) std: f64,
}

impl Scaling {
    /// The first column that shows that both did not come of the same rows; a file's decimals may
    /// differ in the last digit.
    pub(crate) fn differs_from(&self, other: &Self) -> Option<&str> {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
        if self.features.len() != other.features.len() {
            return Some(&self.target.name);
        }
        let others = other.features.iter().chain([&other.target]);
        let mut pairs = self.features.iter().chain([&self.target]).zip(others);
        let differing = pairs.find(|(own, other)| {
            own.name != other.name || !near(own.mean, other.mean) || !near(own.std, other.std)
        });
        differing.map(|(own, _)| own.name.as_str())
    }
}

/// Rows in their own units; NaN where a feature is missing.
struct Rows {
    names: Vec<String>,
    target: String,
    /// `[rows, features]`.
    features: Vec<f64>,
    targets: Vec<f64>,
}

/// Opens the data of a plan; `dir` is the command line's `--data` and comes before the plan's.
pub(crate) fn open_table(plan: &RegressionPlan, dir: Option<&Path>) -> Result<TableData> {
    let (train, test) = match &plan.data {
        TableDataPlan::Formula { formula, noise, train_rows, test_rows } => (
            Rows::of_formula(*formula, *train_rows, *noise, plan.seed)?,
            // Another seed draws other rows; without noise the error is that of the function.
            Rows::of_formula(*formula, *test_rows, 0.0, plan.seed ^ (1 << 63))?,
        ),
        TableDataPlan::Files { dir: planned, files, how_to_get, test_fraction, .. } => {
            let dir = dir.or(planned.as_deref());
            let files: Vec<&PathBuf> = files.iter().collect();
            let place = Place { dir, how_to_get: how_to_get.as_deref() };
            let rows = Rows::of_files(&plan.data, &place.find(&files)?)?;
            let split = stratified_split(&strata(&rows.targets), *test_fraction, plan.seed)?;
            (rows.subset(&split.kept), rows.subset(&split.held_out))
        }
    };
    if test.targets.is_empty() {
        bail!("no row is left for the test: {} rows are too few", train.targets.len());
    }
    let scaling = Scaling::fit(&train)?;
    let config = StreamConfig::new(plan.train.batch).with_workers(Workers::Count(0));
    let ordered = config.clone().with_order(Order::Shuffled).with_seed(plan.seed);
    let train = scaling.samples(&train).context("the training rows")?;
    let test = scaling.samples(&test).context("the test rows")?;
    Ok(TableData {
        train: Loader::collating(train, ordered.with_last(LastBatch::Drop))?,
        test: Loader::collating(test, config)?,
        scaling,
    })
}

impl Rows {
    fn of_formula(plan: FormulaPlan, rows: usize, noise: f32, seed: u64) -> Result<Self> {
        let formula = match plan {
            FormulaPlan::ExpSinSquare => Formula::ExpSinSquare,
            FormulaPlan::Friedman1 => Formula::Friedman1,
            FormulaPlan::Product => Formula::Product,
        };
        let set = formula_samples(formula, rows, noise, seed)?;
        let mut batch = set.begin(rows);
        for index in 0..rows {
            set.add(Draw { seed, epoch: 0, index }, &mut (), &mut batch)?;
        }
        let TargetBatch::Values { values, .. } = batch.targets() else {
            unreachable!("a formula has values")
        };
        let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
        Ok(Self {
            names: (1..=formula.inputs()).map(|input| format!("x{input}")).collect(),
            target: "y".to_owned(),
            features: wide(batch.values()),
            targets: wide(values),
        })
    }

    fn of_files(plan: &TableDataPlan, paths: &[PathBuf]) -> Result<Self> {
        let TableDataPlan::Files {
            files, delimiter, columns, features, target, file_features, ..
        } = plan
        else {
            unreachable!("files are opened for a plan of files")
        };
        let delimiter = match delimiter {
            DelimiterPlan::Comma => Delimiter::Comma,
            DelimiterPlan::Semicolon => Delimiter::Semicolon,
            DelimiterPlan::Tab => Delimiter::Tab,
        };
        let mut schema = features.iter().fold(TableSchema::new(), TableSchema::number);
        schema = schema.number(target);
        if let Some(columns) = columns {
            schema = schema.with_header(columns.clone());
        }
        // All files but the first have a feature: it is 1 for their own rows.
        let told = if *file_features { paths.len() - 1 } else { 0 };
        let mut names = features.clone();
        // Named as the plan names them: the data folder may be another one next time.
        names.extend(files[1..=told].iter().map(|file| format!("from {}", file.display())));
        let mut rows =
            Self { names, target: target.clone(), features: Vec::new(), targets: Vec::new() };
        for (file, path) in paths.iter().enumerate() {
            let table = Table::read(path, delimiter, schema.clone())?;
            for row in 0..table.rows() {
                for feature in features {
                    rows.features.push(table.number(feature, row)?.unwrap_or(f64::NAN));
                }
                rows.features.extend((1..=told).map(|own| f64::from(u8::from(own == file))));
                rows.targets.push(table.number(target, row)?.ok_or_else(|| {
                    let (path, row) = (path.display(), row + 1);
                    anyhow!("`{path}`: row {row} lacks the target `{target}`; leave the row out")
                })?);
            }
        }
        Ok(rows)
    }

    fn subset(&self, rows: &[usize]) -> Self {
        let width = self.names.len();
        Self {
            names: self.names.clone(),
            target: self.target.clone(),
            features: rows
                .iter()
                .flat_map(|row| &self.features[row * width..][..width])
                .copied()
                .collect(),
            targets: rows.iter().map(|&row| self.targets[row]).collect(),
        }
    }
}

impl Scaling {
    fn fit(rows: &Rows) -> Result<Self> {
        let width = rows.names.len();
        let features = rows.names.iter().enumerate().map(|(at, name)| {
            ColumnScale::fit(name, rows.features.iter().skip(at).step_by(width).copied())
        });
        let features = features.collect();
        let target = ColumnScale::fit(&rows.target, rows.targets.iter().copied());
        let (least, most) = rows
            .targets
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |to, &y| (to.0.min(y), to.1.max(y)));
        if least >= most {
            bail!(
                "the target `{}` is {least} in every training row: nothing to learn",
                rows.target
            );
        }
        Ok(Self { features, target })
    }

    /// Scaled rows; a missing feature is its mean.
    fn samples(&self, rows: &Rows) -> Result<InMemoryTensors, DataError> {
        let width = self.features.len();
        let scaled = rows.features.iter().enumerate().map(|(at, &value)| {
            if value.is_nan() { 0.0 } else { self.features[at % width].scaled(value) }
        });
        let values = rows.targets.iter().map(|&value| self.target.scaled(value)).collect();
        let targets = Targets::Values { shape: vec![1], values };
        InMemoryTensors::from_floats(rows.targets.len(), &[width], scaled.collect(), targets)
    }
}

impl ColumnScale {
    /// Mean and standard deviation (over `n`) of what is not NaN; 0 and 1 where nothing is, and a
    /// deviation of 1 where nothing differs.
    fn fit(name: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let present = || values.clone().filter(|value| !value.is_nan());
        let count = present().count().max(1) as f64;
        // Divided before they are added, so that no sum of finite numbers overflows.
        let mean = present().map(|value| value / count).sum::<f64>();
        let std = present().map(|value| (value - mean).powi(2) / count).sum::<f64>().sqrt();
        let std = if std > 0.0 && std.is_finite() { std } else { 1.0 };
        Self { name: name.to_owned(), mean, std }
    }

    fn scaled(&self, value: f64) -> f32 {
        ((value - self.mean) / self.std) as f32
    }
}

/// The tenth of the sorted values that each lies in; equal ones lie in one.
fn strata(values: &[f64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let bounds = (1..STRATA).filter_map(|part| sorted.get(part * sorted.len() / STRATA));
    let bounds: Vec<f64> = bounds.copied().collect();
    values.iter().map(|value| bounds.partition_point(|bound| bound <= value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_lie_in_one_stratum_and_strata_are_alike_in_size() {
        let values: Vec<f64> = (0..200).map(|at| f64::from(at * 37 % 200)).collect();
        let found = strata(&values);
        for stratum in 0..STRATA {
            assert_eq!(found.iter().filter(|&&other| other == stratum).count(), 20);
        }
        let few = strata(&[3.0, 8.0, 3.0, 3.0]);
        assert!(few[0] == few[2] && few[2] == few[3] && few[0] < few[1], "{few:?}");
    }

    #[test]
    fn the_scale_is_that_of_the_training_rows_and_a_missing_feature_is_their_mean() {
        let rows = |features: Vec<f64>, targets: Vec<f64>| Rows {
            names: vec!["a".to_owned(), "b".to_owned()],
            target: "y".to_owned(),
            features,
            targets,
        };
        let train = rows(vec![1.0, 5.0, 3.0, f64::NAN, 5.0, 5.0], vec![0.0, 10.0, 20.0]);
        let scaling = Scaling::fit(&train).expect("it differs");
        let scale = |at: usize| (scaling.features[at].mean, scaling.features[at].std);
        assert_eq!(scale(0), (3.0, (8.0_f64 / 3.0).sqrt()));
        assert_eq!(scale(1), (5.0, 1.0));
        assert_eq!(scaling.target.mean, 10.0);
        let samples = scaling.samples(&rows(vec![f64::NAN, 7.0], vec![10.0])).expect("one row");
        let mut batch = samples.begin(1);
        samples.add(Draw { seed: 0, epoch: 0, index: 0 }, &mut (), &mut batch).expect("added");
        assert_eq!(batch.values(), [0.0, 2.0]);

        let error = Scaling::fit(&rows(vec![1.0; 4], vec![2.0, 2.0])).expect_err("constant");
        assert!(error.to_string().contains("target `y` is 2 in every"), "{error}");
    }
}
