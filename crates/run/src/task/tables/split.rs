//! Training, validation and test rows.

use std::collections::{BTreeMap, BTreeSet};

use updraft_data::{Table, stratified_parts, stratified_split};

use super::data_plan::DataPlan;
use super::rare_words::keep_rare;
use super::source_plan::TestPart;
use super::strata::strata;
use super::target_plan::{TargetKind, TargetsPlan};
use crate::error::RunError;
use crate::task::held_out_fraction::HeldOutFraction;

/// Makes the validation rows independent of the test rows.
const VALIDATION_SEED: u64 = 1 << 62;

/// The rows that are learned from, those on which thresholds are found, and those tested on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) train: Vec<usize>,
    pub(super) validation: Vec<usize>,
    pub(super) test: Vec<usize>,
}

impl Split {
    /// Divides the rows of a table, whose first `training` rows are not from test files.
    pub(super) fn of(
        plan: &DataPlan,
        targets: &TargetsPlan,
        (truth, training): (&Table, usize),
        seed: u64,
        notes: &mut Vec<String>,
    ) -> Result<Self, RunError> {
        let groups = plan.source.group().map(|group| groups(truth, group)).transpose()?;
        let groups = groups.as_deref();
        let (kept, test) = match plan.source.test_part() {
            Some((part, stratify)) => {
                let rows: Vec<usize> = (0..truth.rows()).collect();
                let fraction = part.fraction();
                let key = match part {
                    TestPart::Share(_) => "data.test_fraction",
                    TestPart::Fold { .. } => "data.folds",
                };
                let asked = HeldOutFraction { key, part: "test data", fraction };
                let of = Of { asked, rows: "rows", part };
                let strata = strata((truth, &rows), (stratify, targets), groups, part)?;
                let divided = held_out(&strata, groups, of, seed, notes)?;
                match (part, groups) {
                    (TestPart::Share(_), None) => keep_rare(truth, targets, divided)?,
                    // Folds and groups decide.
                    _ => divided,
                }
            }
            None => {
                notes.extend(groups.and_then(|groups| shared_groups(groups, training)));
                ((0..training).collect(), (training..truth.rows()).collect())
            }
        };
        let fraction = plan.validation_fraction;
        let labels = targets.targets.iter().find(|(_, plan)| plan.kind == TargetKind::Labels);
        let (Some((labels, _)), true) = (labels, fraction > 0.0) else {
            return Ok(Self { train: kept, validation: Vec::new(), test });
        };
        let groups: Option<Vec<usize>> =
            groups.map(|groups| kept.iter().map(|&row| groups[row]).collect());
        let groups = groups.as_deref();
        let part = TestPart::Share(fraction);
        let strata = strata((truth, &kept), (labels, targets), groups, part)?;
        let asked =
            HeldOutFraction { key: "data.validation_fraction", part: "validation data", fraction };
        let of = Of { asked, rows: "training rows", part };
        let (train, validation) = held_out(&strata, groups, of, seed ^ VALIDATION_SEED, notes)?;
        let rows = |of: Vec<usize>| of.into_iter().map(|at| kept[at]).collect();
        let mut divided = (rows(train), rows(validation));
        if groups.is_none() {
            divided = keep_rare(truth, targets, divided)?;
        }
        let (train, validation) = divided;
        if validation.is_empty() {
            let reason = format!(
                "`data.validation_fraction` {fraction} of {} training rows is none, without rows that \
                 have a class or a label which no other row has: raise it",
                kept.len()
            );
            return Err(RunError::Unusable { reason });
        }
        Ok(Self { train, validation, test })
    }
}

/// What is held out of which rows.
#[derive(Debug, Clone, Copy)]
struct Of {
    asked: HeldOutFraction,
    rows: &'static str,
    part: TestPart,
}

/// The positions of the samples that are kept and of those that are held out.
fn held_out(
    strata: &[usize],
    groups: Option<&[usize]>,
    of: Of,
    seed: u64,
    notes: &mut Vec<String>,
) -> Result<(Vec<usize>, Vec<usize>), RunError> {
    let (shares, own) = match (of.part, groups) {
        (TestPart::Share(fraction), None) => {
            let split = stratified_split(strata, fraction, seed)?;
            let sizes = [split.held_out.len(), split.kept.len()];
            let why = "each stratum of at least two rows has a row on both sides";
            notes.extend(of.asked.message(sizes, of.rows, why));
            return Ok((split.kept, split.held_out));
        }
        (TestPart::Share(fraction), Some(_)) => (vec![1.0 - fraction, fraction], 1),
        (TestPart::Fold { fold, folds }, _) => (vec![1.0; folds], fold),
    };
    refuse_few(strata.len(), groups, of, shares.len())?;
    let parts = stratified_parts(strata, groups, &shares, seed)?;
    let (mut kept, mut held_out) = (Vec::new(), Vec::new());
    for (row, part) in parts.into_iter().enumerate() {
        if part == own { held_out.push(row) } else { kept.push(row) }
    }
    let why = match groups {
        Some(_) => "rows with one value of `data.group` stay together",
        None => "a fold has whole rows",
    };
    notes.extend(of.asked.message([held_out.len(), kept.len()], of.rows, why));
    Ok((kept, held_out))
}

/// Returns an error for fewer groups, or rows without groups, than parts.
fn refuse_few(rows: usize, groups: Option<&[usize]>, of: Of, parts: usize) -> Result<(), RunError> {
    let distinct = groups.map(|groups| groups.iter().collect::<BTreeSet<_>>().len());
    if distinct.unwrap_or(rows) >= parts {
        return Ok(());
    }
    let have = match distinct {
        Some(1) => format!("{rows} {} have a single value of `data.group`", of.rows),
        Some(values) => format!("{rows} {} have {values} values of `data.group`", of.rows),
        None => format!("the data has {rows} {}", of.rows),
    };
    let key = of.asked.key;
    let reason = match of.part {
        TestPart::Fold { folds, .. } => {
            format!("`{key}` is {folds}, and {have}: each fold needs at least one of them")
        }
        TestPart::Share(fraction) => {
            format!("`{key}` is {fraction}, and {have}: each side of the split needs one")
        }
    };
    Err(RunError::Unusable { reason })
}

/// A message if test files have groups of training rows.
fn shared_groups(groups: &[usize], training: usize) -> Option<String> {
    let (known, test) = groups.split_at(training);
    let known: BTreeSet<usize> = known.iter().copied().collect();
    let shared = test.iter().filter(|group| known.contains(group)).count();
    (shared > 0).then(|| {
        format!(
            "{shared} of {} test rows have a value of `data.group` that training rows have: \
             `data.test_files` decides where they are",
            test.len()
        )
    })
}

/// The group of each row; a row without a value is a group of its own.
fn groups(truth: &Table, column: &str) -> Result<Vec<usize>, RunError> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups = Vec::with_capacity(truth.rows());
    for row in 0..truth.rows() {
        groups.push(match truth.word(column, row)? {
            // Rows are numbered from 0, so these are no row's own.
            Some(word) => {
                let next = truth.rows() + places.len();
                *places.entry(word).or_insert(next)
            }
            None => row,
        });
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use updraft_data::{Delimiter, TableSchema};

    use super::super::{data_plan, source_plan, target_plan};
    use super::*;
    use crate::config::Settings;

    #[test]
    fn equal_words_are_a_group_and_missing_ones_are_alone() {
        let schema = TableSchema::new().category("patient");
        let text = "patient,x\na,1\n?,1\nb,1\na,1\n,1\n";
        let table = Table::parse(text.as_bytes(), "inline.csv", Delimiter::Comma, schema);
        let groups = groups(&table.expect("a table"), "patient").expect("words");
        assert_eq!(groups[0], groups[3]);
        let distinct: BTreeSet<usize> = groups.into_iter().collect();
        assert_eq!(distinct.len(), 4);
    }

    fn of(part: TestPart) -> Of {
        let key = match part {
            TestPart::Share(_) => "data.test_fraction",
            TestPart::Fold { .. } => "data.folds",
        };
        let asked = HeldOutFraction { key, part: "test data", fraction: part.fraction() };
        Of { asked, rows: "rows", part }
    }

    #[test]
    fn every_row_is_tested_in_one_fold() {
        let strata: Vec<usize> = (0..50).map(|row| row % 3).collect();
        let mut notes = Vec::new();
        let mut fold = |fold| {
            let part = TestPart::Fold { fold, folds: 5 };
            held_out(&strata, None, of(part), 9, &mut notes).expect("divided")
        };
        let mut tested: Vec<usize> = (0..5).flat_map(|at| fold(at).1).collect();
        tested.sort_unstable();
        assert_eq!(tested, (0..50).collect::<Vec<_>>());
        assert_eq!(fold(0).0.len() + fold(0).1.len(), 50);
        assert_eq!(notes, [""; 0]);
    }

    #[test]
    fn a_part_that_groups_make_too_large_is_said_and_too_few_groups_are_refused() {
        // One group has most of the rows.
        let groups: Vec<usize> = (0..50).map(|row| if row < 40 { 0 } else { row }).collect();
        let divided = |groups: &[usize], part| {
            let mut notes = Vec::new();
            let divided = held_out(&[0; 50], Some(groups), of(part), 3, &mut notes);
            divided.map(|_| notes).map_err(|error| error.to_string())
        };
        let notes = (0..5).map(|fold| divided(&groups, TestPart::Fold { fold, folds: 5 }));
        let notes: Vec<String> = notes.flat_map(|notes| notes.expect("divided")).collect();
        let expected = "the test data is 80.0 % of the rows, not 20.0 % as `data.folds` sets: rows \
                        with one value of `data.group` stay together";
        assert!(notes.iter().any(|note| note == expected), "{notes:?}");
        let pairs: Vec<usize> = (0..50).map(|row| row / 2).collect();
        assert_eq!(divided(&pairs, TestPart::Share(0.2)), Ok(Vec::new()));

        let three: Vec<usize> = (0..50).map(|row| row % 3).collect();
        let error = divided(&three, TestPart::Fold { fold: 0, folds: 8 });
        let expected = "`data.folds` is 8, and 50 rows have 3 values of `data.group`: each fold \
                        needs at least one of them";
        assert_eq!(error, Err(expected.to_owned()));
        let error = divided(&[7; 50], TestPart::Share(0.2));
        let expected = "`data.test_fraction` is 0.2, and 50 rows have a single value of \
                        `data.group`: each side of the split needs one";
        assert_eq!(error, Err(expected.to_owned()));
    }

    /// The plan of tables with the labels `tags` and the group `patient`.
    fn plan(data: &str) -> (DataPlan, TargetsPlan) {
        let text = format!(
            "[targets]\ntags = {{ kind = \"labels\" }}\n[data]\nsource = \"files\"\n\
             files = [\"a.csv\"]\n{data}"
        );
        let settings = Settings::load(&text, Path::new("c.toml"), &[]).expect("TOML");
        let keys = vec![source_plan::KEYS, data_plan::KEYS, target_plan::KEYS];
        DataPlan::read(&settings.with_keys(keys, &[]).expect("known keys")).expect("valid")
    }

    /// Divides rows of a patient and tags each.
    fn split(data: &str, rows: &[(usize, String)], training: usize) -> (Split, Vec<String>) {
        let lines = rows.iter().map(|(patient, tags)| format!("p{patient},{tags}\n"));
        let text: String = lines.collect();
        let schema = TableSchema::new().category("patient").multi_label("tags", '|');
        let text = format!("patient,tags\n{text}");
        let table = Table::parse(text.as_bytes(), "a.csv", Delimiter::Comma, schema);
        let (plan, targets) = plan(data);
        let mut notes = Vec::new();
        let of = (&table.expect("a table"), training);
        (Split::of(&plan, &targets, of, 5, &mut notes).expect("divided"), notes)
    }

    fn is_whole(split: &Split, rows: usize) -> bool {
        let mut all = [&split.train[..], &split.validation, &split.test].concat();
        all.sort_unstable();
        all == (0..rows).collect::<Vec<_>>()
    }

    #[test]
    fn sets_of_labels_in_few_rows_are_held_out_like_the_others() {
        // Half of the patients have a set of tags that no other has.
        let tags = |patient: usize| match patient % 2 {
            0 => "a|b".to_owned(),
            _ => format!("a|c{}|d{}", patient % 10, patient / 10),
        };
        for rows_of_one in [1, 2] {
            let rows = |row: usize| (row / rows_of_one, tags(row / rows_of_one));
            let rows: Vec<(usize, String)> = (0..200).map(rows).collect();
            for data in ["test_fraction = 0.25", "test_fraction = 0.25\ngroup = \"patient\""] {
                let (split, notes) = split(data, &rows, 200);
                assert!(is_whole(&split, 200) && notes.is_empty(), "{notes:?}");
                let rare = split.test.iter().filter(|row| rows[**row].1.contains('c')).count();
                assert!((20..=30).contains(&rare), "{rows_of_one} {data}: {rare}");
                assert!((45..=55).contains(&split.test.len()), "{}", split.test.len());
            }
        }
    }

    #[test]
    fn rows_with_a_label_that_no_other_row_has_are_not_held_out() {
        let tags = |row| if row % 4 == 1 { format!("a|c{row}") } else { "a".to_owned() };
        let rows: Vec<(usize, String)> = (0..200).map(|row| (row, tags(row))).collect();
        let data = "test_fraction = 0.25\nvalidation_fraction = 0.25";
        let (split, _) = split(data, &rows, 200);
        assert!(is_whole(&split, 200));
        let held_out = [&split.test[..], &split.validation].concat();
        assert!(held_out.len() > 40 && held_out.iter().all(|row| rows[*row].1 == "a"));
    }

    #[test]
    fn sets_of_labels_are_counted_among_the_rows_that_are_divided() {
        // Each set has four rows, of which three are kept: too few for a quarter each.
        let rows: Vec<(usize, String)> = (0..120).map(|at| (at, format!("c{}", at % 30))).collect();
        let data = "test_fraction = 0.25\nvalidation_fraction = 0.25";
        let (split, notes) = split(data, &rows, 120);
        assert!(is_whole(&split, 120) && notes.is_empty(), "{notes:?}");
        assert_eq!((split.test.len(), split.validation.len(), split.train.len()), (30, 23, 67));
    }

    #[test]
    fn groups_of_separate_test_files_are_together_in_the_training_file() {
        let rows: Vec<(usize, String)> = (0..120).map(|at| (at / 3, "a".to_owned())).collect();
        let data = "test_files = [\"b.csv\"]\ngroup = \"patient\"\nvalidation_fraction = 0.25";
        // The first row of the test files is of a patient with two rows before it.
        let (split, notes) = split(data, &rows, 101);
        assert!(is_whole(&split, 120));
        assert_eq!(split.test, (101..120).collect::<Vec<_>>());
        let patients = |of: &[usize]| of.iter().map(|row| row / 3).collect::<BTreeSet<_>>();
        assert!(patients(&split.train).is_disjoint(&patients(&split.validation)));
        assert!((22..=28).contains(&split.validation.len()), "{}", split.validation.len());
        let expected = "1 of 19 test rows have a value of `data.group` that training rows have: \
                        `data.test_files` decides where they are";
        assert_eq!(notes, [expected]);
    }
}
