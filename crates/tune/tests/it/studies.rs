//! Studies that are killed, shared, damaged, or opened with other settings.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use updraft_tune::{
    Asked, Direction, Objective, PruneDecision, PrunerSettings, SamplerSettings, Space, Study,
    StudySettings, TrialRecord, TrialState, TuneError,
};

const SPACE: &str = r#"
    rate = { kind = "float", low = 1e-4, high = 1.0, log = true }
    net = { kind = "categorical", choices = ["a", "b", "c"] }
    size = { kind = "integer", low = 1, high = 9, when = { net = "b" } }
"#;

fn settings(sampler: SamplerSettings, trials: u64) -> StudySettings {
    StudySettings {
        space: Space::read(&toml::from_str(SPACE).expect("TOML")).expect("a space"),
        objectives: vec![Objective { name: "loss".to_owned(), direction: Direction::Minimize }],
        sampler,
        pruner: Some(PrunerSettings::Median { startup: 3, warmup: 0 }),
        steps: 3,
        seed: 7,
        trials,
        attempts: 1000,
        shared: serde_json::json!({ "train.batch": 64 }),
        data: "0123456789abcdef".to_owned(),
    }
}

const SAMPLERS: [SamplerSettings; 4] = [
    SamplerSettings::Tpe { startup: 4, candidates: 12 },
    SamplerSettings::Evolution { population: 5 },
    SamplerSettings::Random {},
    SamplerSettings::Grid { points: 4 },
];

/// A pseudo-random sequence, independent of the crate's generator.
struct Dice(u64);

impl Dice {
    fn once_in(&mut self, sides: u64) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33).is_multiple_of(sides)
    }
}

fn loss(study: &Study, point: &[Option<f64>]) -> f64 {
    let values = study.settings().space.values(point);
    let mut loss = 0.0;
    for (key, value) in values {
        loss += match key {
            "rate" => (value.as_float().expect("a number").log10() + 2.0).powi(2),
            "net" => {
                if value.as_str() == Some("b") {
                    0.0
                } else {
                    1.0
                }
            }
            _ => 0.1 * value.as_integer().expect("a number") as f64,
        };
    }
    loss
}

/// Runs trials until the study is over or killed; returns whether it is over. A kill may come after
/// any call and may leave an incomplete line.
fn work(
    folder: &Path,
    settings: &StudySettings,
    dice: &mut Dice,
    finished: &mut BTreeMap<u64, u32>,
    sides: u64,
) -> bool {
    let study = Study::open(folder, settings.clone()).expect("opened");
    let mut is_killed = || dice.once_in(sides);
    loop {
        let trial = match study.ask().expect("asked") {
            Asked::Trial(trial) => trial,
            Asked::Over => return true,
            Asked::Wait => panic!("no other process runs a trial"),
        };
        if is_killed() {
            break;
        }
        let loss = loss(&study, &trial.point);
        let mut is_pruned = false;
        for step in 1..=3 {
            let value = loss + 1.0 / step as f64;
            is_pruned =
                study.report(&trial, step, value).expect("reported") == PruneDecision::Prune;
            if is_killed() {
                return false;
            }
            if is_pruned {
                break;
            }
        }
        match (is_pruned, trial.number % 7 == 5) {
            (true, _) => study.prune(&trial, None),
            (false, true) => study.fail(&trial, "a loss that is not finite", None),
            (false, false) => study.finish(&trial, &[loss], Some("a note".to_owned())),
        }
        .expect("recorded");
        *finished.entry(trial.number).or_default() += 1;
        if is_killed() {
            break;
        }
    }
    if dice.once_in(2) {
        let journal = folder.join("journal.jsonl");
        let mut file = OpenOptions::new().append(true).open(journal).expect("opened");
        file.write_all(br#"{"event":"started","trial":"#).expect("written");
    }
    false
}

/// The compared fields of a trial.
type Outcome = (u64, Vec<Option<f64>>, TrialState, Vec<f64>, Vec<(u64, f64)>);

fn result(trial: &TrialRecord) -> Outcome {
    let TrialRecord { number, point, state, values, intermediate, .. } = trial.clone();
    (number, point, state, values, intermediate)
}

fn results(folder: &Path, settings: &StudySettings) -> Vec<Outcome> {
    let study = Study::open(folder, settings.clone()).expect("opened");
    study.trials().iter().map(result).collect()
}

#[test]
fn a_study_that_is_killed_anywhere_ends_with_the_same_trials_and_repeats_none() {
    for sampler in SAMPLERS {
        let settings = settings(sampler, 24);
        let whole = tempfile::tempdir().expect("temporary folder");
        let mut calls = BTreeMap::new();
        assert!(work(whole.path(), &settings, &mut Dice(1), &mut calls, u64::MAX));
        let expected = results(whole.path(), &settings);
        assert!(expected.len() >= 16, "{sampler:?}: {}", expected.len());

        let killed = tempfile::tempdir().expect("temporary folder");
        let (mut calls, mut dice, mut kills) = (BTreeMap::new(), Dice(3), 0);
        while !work(killed.path(), &settings, &mut dice, &mut calls, 12) {
            kills += 1;
            assert!(kills < 1000, "the study does not end");
        }
        assert!(kills >= 5, "{kills} kills are too few");
        assert!(calls.values().all(|count| *count == 1), "a trial was repeated: {calls:?}");
        assert_eq!(results(killed.path(), &settings), expected, "{sampler:?} after {kills} kills");
    }
}

#[test]
fn the_same_seed_gives_the_same_trials_and_another_gives_others() {
    for sampler in SAMPLERS {
        let settings = settings(sampler, 16);
        let run = |seed: u64| {
            let dir = tempfile::tempdir().expect("temporary folder");
            let settings = StudySettings { seed, ..settings.clone() };
            work(dir.path(), &settings, &mut Dice(1), &mut BTreeMap::new(), u64::MAX);
            format!("{:?}", results(dir.path(), &settings))
        };
        assert_eq!(run(1), run(1), "{sampler:?}");
        assert_ne!(run(1), run(2), "{sampler:?}");
    }
}

#[test]
fn several_workers_share_a_study_and_train_each_trial_once() {
    for sampler in SAMPLERS {
        let settings = settings(sampler, 16);
        let dir = tempfile::tempdir().expect("temporary folder");
        let numbers = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    // Each thread opens its own files, like a process.
                    let study = Study::open(dir.path(), settings.clone()).expect("opened");
                    loop {
                        match study.ask().expect("asked") {
                            Asked::Over => break,
                            Asked::Wait => std::thread::yield_now(),
                            Asked::Trial(trial) => {
                                numbers.lock().expect("whole").push(trial.number);
                                let loss = loss(&study, &trial.point);
                                study.finish(&trial, &[loss], None).expect("recorded");
                            }
                        }
                    }
                });
            }
        });
        let mut numbers = numbers.into_inner().expect("whole");
        numbers.sort_unstable();
        assert_eq!(numbers, (0..16).collect::<Vec<_>>(), "{sampler:?}");
        // Every reader of the journal sees the same trials.
        let study = Study::open(dir.path(), settings.clone()).expect("opened");
        assert!(study.trials().iter().all(|trial| trial.state == TrialState::Finished));
    }
}

#[test]
fn another_study_in_the_folder_is_refused_with_what_differs() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let first = settings(SAMPLERS[0], 3);
    drop(Study::open(dir.path(), first.clone()).expect("opened"));
    // A study with more trials is the same study.
    drop(Study::open(dir.path(), StudySettings { trials: 9, ..first.clone() }).expect("opened"));
    let other = |change: &dyn Fn(&mut StudySettings)| {
        let mut settings = first.clone();
        change(&mut settings);
        // The check of a dry run says the same.
        let checked = Study::check(dir.path(), &settings).expect_err("refused").to_string();
        let error = Study::open(dir.path(), settings).err().expect("refused");
        assert!(matches!(error, TuneError::OtherStudy { .. }), "{error}");
        assert_eq!(error.to_string(), checked);
        checked
    };
    Study::check(dir.path(), &first).expect("the same study");
    let empty = dir.path().join("empty");
    Study::check(&empty, &first).expect("no study");
    assert!(!empty.exists(), "a check writes nothing");
    let space = SPACE.replace("high = 1.0", "high = 0.5");
    let space = Space::read(&toml::from_str(&space).expect("TOML")).expect("a space");
    for (error, expected) in [
        (other(&|it| it.seed = 8), "`tune.seed` (7, here 8)"),
        (other(&|it| it.space = space.clone()), "`tune.space.rate.high` (1, here 0.5)"),
        (other(&|it| it.sampler = SAMPLERS[2]), "`tune.sampler.kind` (\"tpe\", here \"random\")"),
        (
            other(&|it| it.shared = serde_json::json!({ "train.batch": 32 })),
            "`train.batch` (64, here 32)",
        ),
        (
            other(&|it| it.data = "fedc".to_owned()),
            "has a study with another digest of the data (0123456789ab, here fedc)",
        ),
    ] {
        assert!(error.contains(expected), "{error}\n{expected}");
    }
}

#[test]
fn a_folder_with_other_files_is_refused_and_left_as_it_was() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let settings = settings(SAMPLERS[2], 3);
    let run = dir.path().join("run");
    fs::create_dir(&run).expect("created");
    Study::check(&run, &settings).expect("an empty folder");
    fs::write(run.join("report.html"), "a run").expect("written");
    let checked = Study::check(&run, &settings).expect_err("refused").to_string();
    let error = Study::open(&run, settings.clone()).err().expect("refused");
    assert!(matches!(&error, TuneError::NotAStudy { folder } if *folder == run), "{error}");
    assert_eq!(error.to_string(), checked);
    assert!(error.is_input());
    assert_eq!(fs::read_dir(&run).expect("read").count(), 1, "it wrote into the folder");
    let file = run.join("report.html");
    let error = Study::check(&file, &settings).expect_err("refused").to_string();
    assert!(error.starts_with("cannot read `"), "{error}");
}

#[test]
fn a_damaged_line_in_the_middle_is_refused_and_nothing_is_lost() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let settings = settings(SAMPLERS[2], 4);
    work(dir.path(), &settings, &mut Dice(1), &mut BTreeMap::new(), u64::MAX);
    let path = dir.path().join("journal.jsonl");
    let whole = fs::read_to_string(&path).expect("read");
    let damaged = whole.replacen("\"event\":\"intermediate\"", "\"event\":\"inter", 1);
    fs::write(&path, &damaged).expect("written");
    let error = Study::open(dir.path(), settings.clone()).err().expect("refused").to_string();
    assert!(error.contains("line 3 of ") && error.contains("journal.jsonl"), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("read"), damaged);

    // Another kind of damage: a trial that was never started.
    let foreign = whole.replacen("\"trial\":0", "\"trial\":9", 1);
    fs::write(&path, foreign).expect("written");
    let error = Study::open(dir.path(), settings).err().expect("refused").to_string();
    assert!(error.contains("trial 9 cannot start here"), "{error}");
}

#[test]
fn a_journal_cut_at_any_byte_is_continued_and_ends_with_the_same_trials() {
    let settings = settings(SAMPLERS[0], 8);
    let dir = tempfile::tempdir().expect("temporary folder");
    work(dir.path(), &settings, &mut Dice(1), &mut BTreeMap::new(), u64::MAX);
    let expected = results(dir.path(), &settings);
    let path = dir.path().join("journal.jsonl");
    let whole = fs::read(&path).expect("read");
    for cut in (0..whole.len()).step_by(97) {
        fs::write(&path, &whole[..cut]).expect("written");
        work(dir.path(), &settings, &mut Dice(1), &mut BTreeMap::new(), u64::MAX);
        assert_eq!(results(dir.path(), &settings), expected, "cut at {cut}");
    }
}

/// Otherwise a study would begin again beside the runs of the lost one.
#[test]
fn a_journal_without_a_line_beside_results_is_refused_and_left_as_it_was() {
    let settings = settings(SAMPLERS[2], 3);
    let dir = tempfile::tempdir().expect("temporary folder");
    work(dir.path(), &settings, &mut Dice(1), &mut BTreeMap::new(), u64::MAX);
    let path = dir.path().join("journal.jsonl");
    let whole = fs::read(&path).expect("read");
    fs::create_dir(dir.path().join("trials")).expect("created");
    for cut in [0, 40] {
        fs::write(&path, &whole[..cut]).expect("written");
        let checked = Study::check(dir.path(), &settings).expect_err("refused").to_string();
        let error = Study::open(dir.path(), settings.clone()).err().expect("refused");
        assert!(matches!(&error, TuneError::Lost { other, .. } if other == "trials"), "{error}");
        assert!(error.is_input() && error.to_string() == checked, "{error}");
        assert_eq!(fs::read(&path).expect("read"), whole[..cut]);
    }
    fs::write(&path, [b"{", &whole[..]].concat()).expect("written");
    let error = Study::open(dir.path(), settings).err().expect("refused").to_string();
    assert!(error.contains("line 1 of ") && error.ends_with("or use another folder"), "{error}");
}

#[test]
fn a_trial_fails_after_the_given_number_of_attempts() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let settings = StudySettings { attempts: 3, ..settings(SAMPLERS[2], 1) };
    for attempt in 1..=3 {
        let study = Study::open(dir.path(), settings.clone()).expect("opened");
        let Asked::Trial(trial) = study.ask().expect("asked") else { panic!("no trial") };
        assert_eq!((trial.number, trial.attempt), (0, attempt));
    }
    let study = Study::open(dir.path(), settings).expect("opened");
    assert_eq!(study.ask().expect("asked"), Asked::Over);
    let trial = &study.trials()[0];
    assert_eq!(trial.state, TrialState::Failed);
    assert!(trial.reason.as_ref().is_some_and(|it| it.contains(" ended")), "{trial:?}");
}

#[test]
fn an_interrupted_trial_is_started_again_any_number_of_times() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let settings = StudySettings { attempts: 1, ..settings(SAMPLERS[2], 1) };
    let study = Study::open(dir.path(), settings).expect("opened");
    for attempt in 1..=4 {
        let Asked::Trial(trial) = study.ask().expect("asked") else { panic!("no trial") };
        assert_eq!((trial.number, trial.attempt), (0, attempt));
        study.interrupt(&trial).expect("recorded");
    }
}

#[test]
fn results_of_an_abandoned_attempt_are_ignored() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let settings = settings(SAMPLERS[2], 2);
    let study = Study::open(dir.path(), settings).expect("opened");
    let Asked::Trial(first) = study.ask().expect("asked") else { panic!("no trial") };
    study.interrupt(&first).expect("recorded");
    let Asked::Trial(second) = study.ask().expect("asked") else { panic!("no trial") };
    assert_eq!((second.number, second.attempt, &second.point), (0, 2, &first.point));
    study.report(&first, 1, 9.0).expect("passed over");
    study.finish(&first, &[9.0], None).expect("passed over");
    study.finish(&second, &[1.0], None).expect("recorded");
    assert_eq!(study.trials()[0].values, [1.0]);
    assert!(study.trials()[0].intermediate.is_empty());
}

#[test]
fn values_that_are_not_finite_fail_the_trial_and_too_many_are_an_error() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let study = Study::open(dir.path(), settings(SAMPLERS[2], 2)).expect("opened");
    let Asked::Trial(trial) = study.ask().expect("asked") else { panic!("no trial") };
    let error = study.finish(&trial, &[1.0, 2.0], None).expect_err("refused").to_string();
    assert_eq!(error, "trial 0 has 2 values; expected one for each of the 1 objectives");
    study.finish(&trial, &[f64::NAN], None).expect("recorded");
    let trial = &study.trials()[0];
    assert_eq!((trial.state, trial.reason.as_deref()), (TrialState::Failed, Some("loss is NaN")));
}
