//! Counts of samplers and pruners with which a search would not end.

use updraft_tune::{
    Direction, Objective, PrunerSettings, SamplerSettings, Space, Study, StudySettings, TuneError,
};

fn settings(sampler: SamplerSettings, pruner: Option<PrunerSettings>) -> StudySettings {
    let space = toml::from_str("a = { kind = \"float\", low = 0.0, high = 1.0 }").expect("TOML");
    StudySettings {
        space: Space::read(&space).expect("a space"),
        objectives: vec![Objective { name: "loss".to_owned(), direction: Direction::Minimize }],
        sampler,
        pruner,
        steps: 3,
        seed: 7,
        trials: 5,
        attempts: 1,
        shared: serde_json::Value::Null,
        data: String::new(),
    }
}

const TPE: SamplerSettings = SamplerSettings::Tpe { startup: 1, candidates: 1 };

#[test]
fn a_count_out_of_its_range_is_refused_before_a_folder_is_made() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = dir.path().join("study");
    for (sampler, pruner, expected) in [
        (
            SamplerSettings::Tpe { startup: 1, candidates: 9_999_999_999_999 },
            None,
            "`tune.sampler.candidates` is 9999999999999; it must be 1 to 10000",
        ),
        (
            SamplerSettings::Tpe { startup: 0, candidates: 1 },
            None,
            "`tune.sampler.startup` is 0; it must be 1 to 100000",
        ),
        (
            SamplerSettings::Evolution { population: 0 },
            None,
            "`tune.sampler.population` is 0; it must be 2 to 100000",
        ),
        (
            SamplerSettings::Grid { points: 1_000_000_000 },
            None,
            "`tune.sampler.points` is 1000000000; it must be 2 to 1000000",
        ),
        (
            TPE,
            Some(PrunerSettings::Median { startup: 1, warmup: u64::MAX }),
            "`tune.pruner.warmup` is 18446744073709551615; it must be 0 to 1000000000",
        ),
        (
            TPE,
            Some(PrunerSettings::Hyperband { first: 0, reduction: 3 }),
            "`tune.pruner.first` is 0; it must be 1 to 1000000000",
        ),
        (
            TPE,
            Some(PrunerSettings::SuccessiveHalving { first: 1, reduction: 1 }),
            "`tune.pruner.reduction` is 1; it must be 2 to 100000",
        ),
    ] {
        let error = Study::open(&folder, settings(sampler, pruner)).err().expect("refused");
        assert!(matches!(error, TuneError::Setting { .. }) && error.is_input(), "{error}");
        assert_eq!(error.to_string(), expected);
        assert!(!folder.exists(), "{expected}");
    }
    drop(Study::open(&folder, settings(TPE, None)).expect("opened"));
}

#[test]
fn a_grid_of_too_many_points_is_refused_by_the_check_of_a_study() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let range = "{ kind = \"float\", low = 0.0, high = 1.0 }";
    let two = toml::from_str(&format!("a = {range}\nb = {range}")).expect("TOML");
    let grid = |points: usize| {
        let grid = settings(SamplerSettings::Grid { points }, None);
        StudySettings { space: Space::read(&two).expect("a space"), ..grid }
    };
    Study::check(dir.path(), &grid(1000)).expect("a million points");
    let error = Study::check(dir.path(), &grid(1001)).expect_err("more");
    let expected = "`tune.sampler` is a grid of more than a million points; it must be one of \
                    fewer, or another sampler";
    assert_eq!(error.to_string(), expected);
    let opened = Study::open(dir.path(), grid(1_000_000)).err().expect("refused");
    assert_eq!(opened.to_string(), expected);
}

#[test]
fn long_values_and_keys_are_cut_in_errors() {
    let key = "k".repeat(60_000);
    for text in [
        "a = { kind = \"float\", low = 0.0, high = -1e308 }".to_owned(),
        "a = { kind = \"float\", low = 1e308, high = 0.0 }".to_owned(),
        format!("{key} = {{ kind = \"float\", low = 0.0 }}"),
        format!("a = {{ kind = \"{key}\" }}"),
        format!("a = {{ kind = \"float\", low = 0.0, high = 1.0, when = {{ {key} = 1 }} }}"),
        format!(
            "\"a.{key}\" = {{ kind = \"categorical\", choices = [1, 2] }}\n\
                 a.{key} = {{ kind = \"float\" }}"
        ),
    ] {
        let error = Space::read(&toml::from_str(&text).expect("TOML")).expect_err("refused");
        let shown = error.to_string();
        assert!(shown.chars().count() < 600, "{} characters: {shown:.200}", shown.len());
    }
    let range = "a = { kind = \"float\", low = 1e308, high = -1e308 }";
    let error = Space::read(&toml::from_str(range).expect("TOML")).expect_err("refused");
    let expected = "`tune.space.a.high` is -1e308; it must be above `low`, which is 1e308";
    assert_eq!(error.to_string(), expected);
}
