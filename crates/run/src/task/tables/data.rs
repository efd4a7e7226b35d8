//! The rows of a run, with encodings fitted on its training rows.

use std::path::Path;
use std::sync::Arc;

use updraft_data::{
    ColumnKind, FeatureEncoder, LastBatch, Loader, NumberScale, Order, Part, RowConfig, RowEncoder,
    Scaling, StreamConfig, Table,
};
use updraft_kan::Penalty;
use updraft_models::RowFeatures;
use updraft_trainer::balanced_weights;

use super::data_plan::DataPlan;
use super::doubts::{doubts, without_words};
use super::files::{Files, generated};
use super::learn::{Learn, Target};
use super::rows::{Encoded, RowSet};
use super::schema_file::SchemaFile;
use super::source_plan::{Source, TestPart};
use super::split::Split;
use super::target_plan::{TargetKind, TargetsPlan};
use super::targets::{TargetCode, TargetValues};
use super::unknown::UnknownShare;
use crate::config::TrainPlan;
use crate::error::RunError;
use crate::folder::RunFolder;

/// The file of a run folder with the encoding of its features.
pub(super) const ENCODER: &str = "encoder.json";

/// The file with the encoding of its targets.
pub(super) const TARGETS: &str = "targets.json";

/// The rows of a run, encoded.
pub(super) struct TableData {
    pub(super) encoder: RowEncoder,
    /// The columns of the features, given or inferred.
    pub(super) schema: SchemaFile,
    /// The encoding of each target, in the order of their names.
    pub(super) codes: Vec<TargetCode>,
    pub(super) train: RowSet,
    /// The rows on which thresholds are found.
    pub(super) validation: Option<RowSet>,
    pub(super) test: RowSet,
    /// The weight of each class of a target in its loss.
    class_weights: Vec<Option<Vec<f32>>>,
    /// Messages about the rows.
    pub(super) notes: Vec<String>,
}

impl TableData {
    /// Opens and encodes the rows of a plan; `dir` is their folder, instead of the one in the plan.
    pub(super) fn open(
        plan: &DataPlan,
        targets: &TargetsPlan,
        seed: u64,
        dir: Option<&Path>,
    ) -> Result<Self, RunError> {
        let paths = plan.source.find(dir)?;
        let mut notes = Vec::new();
        match &plan.source {
            Source::Generated { rows, train_rows, test_rows } => {
                let rows = (*rows, [*train_rows, *test_rows]);
                let [truth, features] = generated(plan, targets, rows, seed)?;
                let split = Split::of(plan, targets, (&truth, *train_rows), seed, &mut notes)?;
                let place = |row: usize| format!("generated row {}", row + 1);
                Self::encode((plan, targets), [&truth, &features], split, &place, notes)
            }
            Source::Files(_) => {
                let mut files = Files::new(plan, paths);
                let (truth, training) = files.targets(targets)?;
                let split = Split::of(plan, targets, (&truth, training), seed, &mut notes)?;
                let mut is_training = vec![false; truth.rows()];
                split.train.iter().for_each(|&row| is_training[row] = true);
                let features = files.features(targets, &is_training)?;
                notes.extend(doubts(plan, &features, &is_training)?);
                let place = |row: usize| files.place(row);
                Self::encode((plan, targets), [&truth, &features], split, &place, notes)
            }
        }
    }

    fn encode(
        (plan, targets): (&DataPlan, &TargetsPlan),
        [truth, features]: [&Table; 2],
        split: Split,
        place: &dyn Fn(usize) -> String,
        mut notes: Vec<String>,
    ) -> Result<Self, RunError> {
        let Split { train, validation, test } = split;
        if let (true, Some((TestPart::Share(_), _))) =
            (test.is_empty() && train.len() > 1, plan.source.test_part())
        {
            let reason = "every row has a value of a target that no other row has, and such a row is \
                          not held out as test data; add rows, or list `data.test_files`";
            return Err(RunError::Unusable { reason: reason.to_owned() });
        }
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
            if target.kind == TargetKind::Number {
                refuse_beyond_f32(truth, column, place)?;
            }
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
        if plan.scaling == Scaling::Standard {
            let columns = features.schema().columns.iter();
            for column in columns.filter(|column| column.kind == ColumnKind::Number) {
                refuse_beyond_f32(features, &column.name, place)?;
            }
        }
        let config = RowConfig::default()
            .with_min_rows(plan.min_rows)
            .with_scaling(plan.scaling)
            .with_encoding(plan.encoding);
        if let Some((schema, path)) = &plan.inferred {
            schema.refuse_others(path, features, place)?;
        }
        let encoder = RowEncoder::fit(features, &train, config)?;
        notes.extend(without_words(&encoder, plan));
        let schema = match &plan.columns {
            Some((schema, _)) => schema.clone(),
            None => SchemaFile::inferred(&encoder, features)?,
        };
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
        let unknown_share = match encoder.class_counts().is_empty() {
            true => UnknownShare::NONE,
            false => UnknownShare::new(plan.unknown_share),
        };
        let encoded = Arc::new(Encoded { features, targets: values });
        Ok(Self {
            encoder,
            schema,
            codes,
            train: RowSet::new(encoded.clone(), train, unknown_share),
            validation: (!validation.is_empty())
                .then(|| RowSet::new(encoded.clone(), validation, UnknownShare::NONE)),
            test: RowSet::new(encoded, test, UnknownShare::NONE),
            class_weights,
            notes,
        })
    }

    /// The features of the network.
    pub(super) fn features(&self) -> RowFeatures {
        features(&self.encoder)
    }

    /// The heads and losses of the targets.
    pub(super) fn learn(&self, targets: &TargetsPlan, penalty: Option<Penalty>) -> Learn {
        let mut learn = learn(&self.encoder, &self.codes, targets, penalty);
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
        part: Part,
    ) -> Result<[Loader<RowSet>; 2], RunError> {
        let config = StreamConfig::new(train.batch).with_workers(train.workers.into());
        let config = config.with_part(part);
        let shuffled = config.clone().with_order(Order::Shuffled).with_seed(seed);
        Ok([
            Loader::collating(self.train.clone(), shuffled.with_last(LastBatch::Drop))?,
            Loader::collating(self.test.clone(), config)?,
        ])
    }

    /// The validation rows in order, if there are any.
    pub(super) fn validation_loader(
        &self,
        train: &TrainPlan,
    ) -> Result<Option<Loader<RowSet>>, RunError> {
        let config = StreamConfig::new(train.batch).with_workers(train.workers.into());
        let rows = self.validation.clone();
        Ok(rows.map(|rows| Loader::collating(rows, config)).transpose()?)
    }

    /// Returns an error for data with another encoding than the run's.
    pub(super) fn check(&self, folder: &RunFolder, targets: &TargetsPlan) -> Result<(), RunError> {
        let stored: RowEncoder = folder.read_bound_json(ENCODER)?;
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
    let codes: Vec<TargetCode> = folder.read_bound_json(TARGETS)?;
    let damaged = |what: &str| RunError::Unusable {
        reason: format!(
            "`{}` is not what a run writes: {what}; restore it from a copy, or train the run again",
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
pub(super) fn learn(
    encoder: &RowEncoder,
    codes: &[TargetCode],
    targets: &TargetsPlan,
    penalty: Option<Penalty>,
) -> Learn {
    let of = |((column, plan), code): ((&String, _), &TargetCode)| {
        let plan: &super::target_plan::TargetPlan = plan;
        Target::new(column, plan, code.head(&plan.loss)).with_code(code)
    };
    let features = features(encoder);
    Learn {
        targets: targets.targets.iter().zip(codes).map(of).collect(),
        categories: features.class_counts.len(),
        numbers: features.numbers,
        penalty,
        balanced_every: targets.weighting.every(),
    }
}

/// Returns an error for numbers that f32 does not hold.
fn refuse_beyond_f32(
    table: &Table,
    column: &str,
    place: &dyn Fn(usize) -> String,
) -> Result<(), RunError> {
    for row in 0..table.rows() {
        if let Some(value) = table.number(column, row)?
            && !(value as f32).is_finite()
        {
            let reason = format!(
                "{}, column `{column}`: {value:e} is beyond what f32 holds, ±3.4e38; correct it or \
                 change its unit",
                place(row)
            );
            return Err(RunError::Unusable { reason });
        }
    }
    Ok(())
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
            (
                FeatureEncoder::Date { scale, has_time, has_missing },
                FeatureEncoder::Date { scale: other, has_time: time, has_missing: missing },
            ) => match (is_same_scale(scale, other), (has_time, has_missing) == (time, missing)) {
                (true, true) => None,
                (true, false) => said("times or missing values"),
                (false, _) => said("other dates"),
            },
            (FeatureEncoder::Boolean { .. }, FeatureEncoder::Boolean { .. }) if own != other => {
                said("missing values")
            }
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

#[cfg(test)]
mod tests {
    use updraft_data::{Delimiter, TableSchema};

    use super::*;

    #[test]
    fn encoders_differ_in_columns_scales_and_words_and_not_in_the_last_digit() {
        let schema = TableSchema::new().number("a").category("b");
        let text = "a,b\n1,u\n3,v\n,u\n100,w\n";
        let table = Table::parse(text.as_bytes(), "inline.csv", Delimiter::Comma, schema);
        let table = table.expect("a table");
        let config = RowConfig::default().with_scaling(Scaling::Standard);
        let fit = |rows: &[usize]| RowEncoder::fit(&table, rows, config).expect("fitted");
        let own = fit(&[0, 1, 2]);
        assert_eq!(difference(&own, &fit(&[0, 1, 2])), None);
        let saved = serde_json::to_string(&own).expect("JSON");
        let edited = |from: &str, to: &str| -> Option<String> {
            let edited = saved.replacen(from, to, 1);
            assert_ne!(edited, saved, "{from}");
            difference(&own, &serde_json::from_str(&edited).expect("an encoder"))
        };
        assert_eq!(edited("\"mean\":2.0", "\"mean\":2.0000000000000004"), None);
        let said = |what: &str| Some(format!("the training rows have {what}"));
        assert_eq!(edited("\"mean\":2.0", "\"mean\":2.5"), said("other values of `a`"));
        assert_eq!(difference(&own, &fit(&[0, 1])), said("missing values of `a`"));
        assert_eq!(edited("\"u\"", "\"x\""), said("other words of `b`"));
        assert_eq!(edited("embedding", "one-hot"), said("other words of `b`"));
        assert_eq!(
            edited("\"name\":\"a\"", "\"name\":\"c\"").as_deref(),
            Some("it has other columns")
        );
    }
}
