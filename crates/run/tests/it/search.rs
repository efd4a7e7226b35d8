//! The plan of a search, from the section `tune`.

use updraft_run::TunePlan;
use updraft_tune::{Asked, Range, Study};

use crate::plans::{read_with, table};

const SPACE: &str = "[tune.space]\n\
    \"train.batch\" = { kind = \"integer\", low = 1, high = 8 }\n\
    \"model.hidden\" = { kind = \"integer\", low = 1, high = 4 }\n";

#[test]
fn a_study_that_is_killed_fifty_times_in_one_trial_goes_on_by_default() {
    let planned = read_with(&table(SPACE), &[]).expect("a plan");
    let settings = TunePlan::read(&planned).expect("a search").study;
    let dir = tempfile::tempdir().expect("temporary folder");
    for attempt in 1..=51 {
        // A study that is closed in a trial looks like one whose process was killed.
        let study = Study::open(dir.path(), settings.clone()).expect("opened");
        let Asked::Trial(trial) = study.ask().expect("asked") else { panic!("no trial") };
        assert_eq!((trial.number, trial.attempt), (0, attempt));
    }
}

#[test]
fn counts_with_which_a_search_would_not_end_are_refused() {
    for (set, expected) in [
        ("tune.sampler={kind='tpe',candidates=9999999999999,startup=1}", "`candidates` 1 to 10000"),
        ("tune.sampler={kind='tpe',startup=100001}", "`startup` 1 to 100000"),
        ("tune.sampler={kind='nsga-ii',population=100001}", "`population` 4 to 100000"),
        ("tune.sampler={kind='grid',points=1000000000}", "`points` 2 to 1000000"),
        ("tune.pruner={kind='median',startup=100001}", "`startup` 1 to 100000"),
        ("tune.pruner={kind='median',warmup=9999999999999}", "`warmup` at most 1000000000"),
        ("tune.pruner={kind='hyperband',first=9999999999999}", "`first` 1 to 1000000000"),
        ("tune.pruner={kind='successive-halving',reduction=100001}", "`reduction` 2 to 100000"),
    ] {
        let planned = read_with(&table(SPACE), &[set]).expect("a plan");
        let error = TunePlan::read(&planned).expect_err(set).to_string();
        let (key, _) = set.split_once('=').expect("a setting");
        assert!(error.starts_with(&format!("`{key}` is {{ ")), "{set}: {error}");
        assert!(error.contains("; it must be one with ") && error.contains(expected), "{error}");
    }
}

#[test]
fn one_range_of_the_space_is_changed_from_the_command_line() {
    let set = "tune.space.\"model.hidden\"={ kind = 'integer', low = 2, high = 9 }";
    for sets in
        [&[set][..], &["tune.space.'model.hidden'.low=2", "tune.space.'model.hidden'.high=9"]]
    {
        let planned = read_with(&table(SPACE), sets).expect("a plan");
        let space = TunePlan::read(&planned).expect("a search").study.space;
        let hidden = space.parameters().iter().find(|it| it.key() == "model.hidden");
        let expected = Range::Integer { low: 2, high: 9, is_log: false, step: 1 };
        assert_eq!(hidden.expect("searched").range(), &expected, "{sets:?}");
    }
    let planned =
        read_with(&table(SPACE), &["tune.space.\"model.hidden\".high=0"]).expect("a plan");
    let error = TunePlan::read(&planned).expect_err("refused").to_string();
    let expected = "`tune.space.model.hidden.high` is 0; it must be above `low`, which is 1";
    assert_eq!(error, expected);
}
