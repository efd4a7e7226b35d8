//! The rows of a run, with encodings fitted on its training rows.

use std::sync::Arc;

use updraft_data::{
    FeatureEncoder, LastBatch, Loader, NumberScale, Order, RowConfig, RowEncoder, StreamConfig,
    Table, stratified_split,
};
use updraft_models::RowFeatures;
use updraft_trainer::balanced_weights;

use super::data_plan::{DataPlan, FilesPlan, Source, TestRows};
use super::files::{Files, generated};
use super::learn::{Learn, Target};
use super::rows::{Encoded, RowSet};
use super::target_plan::{TargetKind, TargetsPlan};
use super::targets::{TargetCode, TargetValues};
use crate::config::TrainPlan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::Opening;
use crate::task::share::{other_share, tenths};

/// The file of a run folder with the encoding of its features.
pub(super) const ENCODER: &str = "encoder.json";

/// The file with the encoding of its targets.
pub(super) const TARGETS: &str = "targets.json";

/// The rows of a run, encoded.
pub(super) struct TableData {
    pub(super) encoder: RowEncoder,
    /// The encoding of each target, in the order of their names.
    pub(super) codes: Vec<TargetCode>,
    pub(super) train: RowSet,
    pub(super) test: RowSet,
    /// The weight of each class of a target in its loss.
    class_weights: Vec<Option<Vec<f32>>>,
    /// Messages about the rows.
    pub(super) notes: Vec<String>,
}

impl TableData {
    /// Opens and encodes the rows of a plan.
    pub(super) fn open(
        plan: &DataPlan,
        targets: &TargetsPlan,
        seed: u64,
        opening: &Opening<'_>,
    ) -> Result<Self, RunError> {
        let paths = plan.find(opening.dir)?;
        let mut notes = Vec::new();
        match &plan.source {
            Source::Generated { train_rows, test_rows } => {
                let [truth, features] = generated(plan, targets, (*train_rows, *test_rows), seed)?;
                let split = ((0..*train_rows).collect(), (*train_rows..truth.rows()).collect());
                let place = |row: usize| format!("generated row {}", row + 1);
                Self::encode((plan, targets), [&truth, &features], split, &place, notes)
            }
            Source::Files(files_plan) => {
                let mut files = Files::new(plan, paths);
                let (truth, training) = files.targets(targets)?;
                let place = |row: usize| files.place(row);
                let split = split(files_plan, targets, (&truth, training), seed, &mut notes)?;
                let mut is_training = vec![false; truth.rows()];
                split.0.iter().for_each(|&row| is_training[row] = true);
                let features = files.features(targets, &is_training)?;
                Self::encode((plan, targets), [&truth, &features], split, &place, notes)
            }
        }
    }

    fn encode(
        (plan, targets): (&DataPlan, &TargetsPlan),
        [truth, features]: [&Table; 2],
        (train, test): (Vec<usize>, Vec<usize>),
        place: &dyn Fn(usize) -> String,
        notes: Vec<String>,
    ) -> Result<Self, RunError> {
        if test.is_empty() || train.is_empty() {
            let reason = format!(
                "{} training rows and {} test rows are too few: there must be at least one of each",
                train.len(),
                test.len()
            );
            return Err(RunError::Unusable { reason });
        }
        let (mut codes, mut values, mut class_weights) = (Vec::new(), Vec::new(), Vec::new());
        for (column, target) in &targets.targets {
            let code = TargetCode::fit(truth, (column, target), &train, place)?;
            let of_rows = code.values(truth, (column, target), place)?;
            class_weights.push(target.loss.is_balanced().then(|| {
                let classes = code.head(&target.loss).width();
                balanced_weights(&of_rows.class_counts(classes, &train))
            }));
            refuse_unscored(column, &of_rows, &test)?;
            codes.push(code);
            values.push(of_rows);
        }
        let config = RowConfig::default().with_min_rows(plan.min_rows).with_scaling(plan.scaling);
        let encoder = RowEncoder::fit(features, &train, config)?;
        let features = encoder.encode(features)?;
        if encoder.class_counts().is_empty() && encoder.number_names().is_empty() {
            let reason = "no feature has a value in any training row: nothing to predict from";
            return Err(RunError::Unusable { reason: reason.to_owned() });
        }
        for row in 0..features.rows() {
            let far = features.numbers(row).iter().position(|number| !number.is_finite());
            if let Some(at) = far {
                return Err(RunError::Unusable { reason: too_far(&encoder, at, &place(row)) });
            }
        }
        let encoded = Arc::new(Encoded { features, targets: values });
        Ok(Self {
            encoder,
            codes,
            train: RowSet::new(encoded.clone(), train, plan.unknown_share),
            test: RowSet::new(encoded, test, 0.0),
            class_weights,
            notes,
        })
    }

    /// The features of the network.
    pub(super) fn features(&self) -> RowFeatures {
        features(&self.encoder)
    }

    /// The heads and losses of the targets.
    pub(super) fn learn(&self, targets: &TargetsPlan) -> Learn {
        let mut learn = learn(&self.encoder, &self.codes, targets);
        for (target, weights) in learn.targets.iter_mut().zip(&self.class_weights) {
            target.class_weights.clone_from(weights);
        }
        learn
    }

    /// Shuffled batches for training, batches in order for the test.
    pub(super) fn loaders(
        &self,
        train: &TrainPlan,
        seed: u64,
    ) -> Result<[Loader<RowSet>; 2], RunError> {
        let config = StreamConfig::new(train.batch).with_workers(train.workers.into());
        let shuffled = config.clone().with_order(Order::Shuffled).with_seed(seed);
        Ok([
            Loader::collating(self.train.clone(), shuffled.with_last(LastBatch::Drop))?,
            Loader::collating(self.test.clone(), config)?,
        ])
    }

    /// Returns an error for data with another encoding than the run's.
    pub(super) fn check(&self, folder: &RunFolder, targets: &TargetsPlan) -> Result<(), RunError> {
        let stored: RowEncoder = folder.read_json(ENCODER)?;
        let codes = codes(folder, targets)?;
        let names = targets.targets.keys();
        let of_targets = names
            .zip(self.codes.iter().zip(&codes))
            .find_map(|(name, (own, other))| own.difference(other, name));
        match difference(&self.encoder, &stored).or(of_targets) {
            None => Ok(()),
            Some(difference) => {
                Err(RunError::OtherData { run: folder.path().to_owned(), difference })
            }
        }
    }
}

/// The encodings of a run's targets, one for each target of the plan.
pub(super) fn codes(
    folder: &RunFolder,
    targets: &TargetsPlan,
) -> Result<Vec<TargetCode>, RunError> {
    let codes: Vec<TargetCode> = folder.read_json(TARGETS)?;
    let damaged = |what: &str| RunError::Unusable {
        reason: format!(
            "`{}` is not what a run writes: {what}",
            folder.path().join(TARGETS).display()
        ),
    };
    if codes.len() != targets.targets.len() {
        let (found, expected) = (codes.len(), targets.targets.len());
        return Err(damaged(&format!("it has {found} targets, the plan {expected}")));
    }
    for ((column, target), code) in targets.targets.iter().zip(&codes) {
        if let Some(fault) = code.fault(target.kind) {
            return Err(damaged(&format!("target `{column}`: {fault}")));
        }
    }
    Ok(codes)
}

/// The message about a number that is too far from the mean to be represented.
pub(super) fn too_far(encoder: &RowEncoder, number: usize, place: &str) -> String {
    format!(
        "{place}, column `{}`: the value is so far from the mean of the training rows, in their \
         standard deviation, that f32 cannot hold it; correct it, or set `data.scaling` to \
         \"quantile\"",
        encoder.number_names().get(number).copied().unwrap_or_default()
    )
}

/// The features of the network.
pub(super) fn features(encoder: &RowEncoder) -> RowFeatures {
    RowFeatures { class_counts: encoder.class_counts(), numbers: encoder.number_names().len() }
}

/// The heads and losses of targets, without class weights.
pub(super) fn learn(encoder: &RowEncoder, codes: &[TargetCode], targets: &TargetsPlan) -> Learn {
    let of = |((column, plan), code): ((&String, _), &TargetCode)| {
        let plan: &super::target_plan::TargetPlan = plan;
        Target::new(column, plan, code.head(&plan.loss)).with_code(code)
    };
    let features = features(encoder);
    Learn {
        targets: targets.targets.iter().zip(codes).map(of).collect(),
        categories: features.class_counts.len(),
        numbers: features.numbers,
    }
}

/// Training and test rows of files.
fn split(
    files: &FilesPlan,
    targets: &TargetsPlan,
    (truth, training): (&Table, usize),
    seed: u64,
    notes: &mut Vec<String>,
) -> Result<(Vec<usize>, Vec<usize>), RunError> {
    let TestRows::Share { fraction, stratify } = &files.test else {
        return Ok(((0..training).collect(), (training..truth.rows()).collect()));
    };
    let strata = strata(truth, stratify, targets, *fraction)?;
    let split = stratified_split(&strata, *fraction, seed)?;
    notes.extend(other_share(*fraction, &split, "rows", "each class keeps a row on both sides"));
    Ok((split.kept, split.held_out))
}

/// The stratum of each row: its class, its labels, or the decile of its number.
fn strata(
    truth: &Table,
    column: &str,
    targets: &TargetsPlan,
    fraction: f64,
) -> Result<Vec<usize>, RunError> {
    match targets.targets.get(column).map(|target| target.kind) {
        Some(TargetKind::Classes | TargetKind::Ordered) => Ok(truth.strata(column)?),
        Some(TargetKind::Labels) => {
            let mut seen = std::collections::BTreeMap::new();
            let stratum = |row| {
                let mut labels = truth.labels(column, row)?;
                labels.sort_unstable();
                let next = seen.len();
                Ok(*seen.entry(labels).or_insert(next))
            };
            (0..truth.rows()).map(stratum).collect()
        }
        _ => {
            let value = |row| Ok(truth.number(column, row)?.unwrap_or(f64::NAN));
            let values: Vec<f64> = (0..truth.rows()).map(value).collect::<Result<_, RunError>>()?;
            Ok(tenths(&values, fraction))
        }
    }
}

/// Returns an error for a target that is missing in every test row.
fn refuse_unscored(column: &str, values: &TargetValues, test: &[usize]) -> Result<(), RunError> {
    let is_there = |&row: &usize| match values {
        TargetValues::Classes(classes) => classes[row].is_some(),
        TargetValues::Numbers(numbers) => numbers[row].is_some(),
        TargetValues::Labels { .. } => true,
    };
    if test.iter().any(is_there) {
        return Ok(());
    }
    let reason = format!("the target `{column}` is missing in every test row: nothing to score");
    Err(RunError::Unusable { reason })
}

/// The difference between two encoders; decimals of a file may differ in the last digit.
fn difference(own: &RowEncoder, other: &RowEncoder) -> Option<String> {
    let mut features = own.features().zip(other.features());
    let counts = (own.features().count(), other.features().count());
    if counts.0 != counts.1 || features.any(|((name, _), (other, _))| name != other) {
        return Some("it has other columns".to_owned());
    }
    own.features().zip(other.features()).find_map(|((name, own), (_, other))| {
        let said = |what: &str| Some(format!("the training rows have {what} of `{name}`"));
        match (own, other) {
            (
                FeatureEncoder::Number { scale, has_missing },
                FeatureEncoder::Number { scale: other_scale, has_missing: other_missing },
            ) => match (is_same_scale(scale, other_scale), has_missing == other_missing) {
                (true, true) => None,
                (true, false) => said("missing values"),
                (false, _) => said("other values"),
            },
            (own, other) if own != other => said("other words"),
            _ => None,
        }
    })
}

fn is_same_scale(own: &NumberScale, other: &NumberScale) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
    let all_near = |own: &[f64], other: &[f64]| {
        own.len() == other.len() && own.iter().zip(other).all(|(a, b)| near(*a, *b))
    };
    match (own, other) {
        (
            NumberScale::Standard { mean, std },
            NumberScale::Standard { mean: other_mean, std: other_std },
        ) => near(*mean, *other_mean) && near(*std, *other_std),
        (
            NumberScale::Quantile { values, scores },
            NumberScale::Quantile { values: others, scores: other_scores },
        ) => all_near(values, others) && all_near(scores, other_scores),
        _ => false,
    }
}
