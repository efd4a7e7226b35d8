//! Runs on several ranks, which are threads here, from a common checkpoint.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use updraft_data::Views;
use updraft_distributed::{Shared, Threads};
use updraft_run::{
    Beginning, EvaluatedForm, Observer, Plan, RankEvaluation, RunError, RunFolder, TASKS, Trained,
    Training,
};
use updraft_trainer::{Control, Evaluation, Event, RankTimes};

use crate::plans::read_with;
use crate::train::{ROWS, Watcher, device, train, workload};

pub(crate) const IMAGES: &str = "[data]\nheight = 16\nwidth = 16\ntrain_images = 144\ntest_images = 24\n\
    [model]\nkind = \"separable\"\n[train]\nepochs = 6\nbatch = 16\nlearning_rate = 0.005\n\
    clip_norm = 1e9\noptimizer = { kind = \"sgd\", momentum = 0.0 }\n\
    schedule = { kind = \"constant\" }\n";

/// Losses and gradient norms of the updates, and the ranks that the epochs have times of.
#[derive(Debug, Default)]
pub(crate) struct Updates(pub(crate) Vec<(f64, f64)>, Vec<usize>);

impl Observer for Updates {
    fn begin(&mut self, _: &Beginning<'_>) -> Result<(), RunError> {
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Control {
        if let Event::Step(report) = event {
            self.0.push((report.loss, report.gradient_norm.unwrap_or_default()));
        }
        if let Event::Epoch(report) = event {
            let is_timed = |rank: &RankTimes| {
                let times = &rank.times;
                rank.train_us >= times.rank_wait_us + times.exchange_us && times.exchange_us > 0
            };
            assert!(report.ranks.iter().all(is_timed), "{:?}", report.ranks);
            let first = report.ranks.first().map(|rank| rank.parameters);
            assert!(report.ranks.iter().all(|rank| Some(rank.parameters) == first), "{report:?}");
            self.1.push(report.ranks.len());
        }
        Control::Continue
    }
}

/// Continues a copy of a run on several ranks, each with its own settings.
fn on_ranks(
    stopped: &RunFolder,
    text: &str,
    sets: &[&[&str]],
) -> Vec<Result<(Trained, Updates), RunError>> {
    on_ranks_with(stopped, text, sets, Differs::Nothing)
}

/// What a rank has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Differs {
    Nothing,
    /// The last rank opens other data than its plan says.
    Data,
    /// Every rank has a run folder of its own.
    Folder,
}

fn on_ranks_with(
    stopped: &RunFolder,
    text: &str,
    sets: &[&[&str]],
    differs: Differs,
) -> Vec<Result<(Trained, Updates), RunError>> {
    let runs = tempfile::tempdir().expect("temporary folder");
    on_ranks_in(runs.path(), stopped, text, sets, differs)
}

/// The same in a folder of runs.
pub(crate) fn on_ranks_in(
    runs: &Path,
    stopped: &RunFolder,
    text: &str,
    sets: &[&[&str]],
    differs: Differs,
) -> Vec<Result<(Trained, Updates), RunError>> {
    let _alone = updraft_testing::alone();
    let copy = |rank: usize| match differs {
        Differs::Folder => runs.join(format!("copy-{rank}")),
        _ => runs.join("copy"),
    };
    (0..sets.len()).for_each(|rank| copy_folder(stopped.path(), &copy(rank)));
    let last = sets.len() - 1;
    let engines = Threads::group(sets.len(), Duration::from_secs(120));
    thread::scope(|scope| {
        let ranks: Vec<_> = engines
            .into_iter()
            .zip(sets)
            .enumerate()
            .map(|(number, (engine, sets))| {
                let copy = copy(number);
                scope.spawn(move || {
                    let plan = unlocked(text, sets);
                    let opened = match differs == Differs::Data && number == last {
                        true => unlocked(text, &["seed=77"]),
                        false => unlocked(text, sets),
                    };
                    rank(engine, (&plan, &opened), RunFolder::open(&copy)?, runs)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

fn rank(
    engine: Threads,
    (plan, opened): (&Plan, &Plan),
    run: RunFolder,
    runs: &Path,
) -> Result<(Trained, Updates), RunError> {
    let (device, selection) = device();
    let workload = workload(opened, Some(&run));
    let mut updates = Updates::default();
    let training = Training {
        plan,
        device: &device,
        selection: &selection,
        runs,
        resumed: Some(run),
        collective: Shared::new(engine),
        trace_steps: None,
        began: (Instant::now(), None),
    };
    let trained = workload.train(training, &mut updates)?;
    Ok((trained, updates))
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("its type").is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

pub(crate) fn plan(text: &str, sets: &[&str]) -> Plan {
    read_with(text, sets).unwrap_or_else(|error| panic!("{sets:?}: {error}")).plan
}

/// The same for a thread of a test that is alone already.
pub(crate) fn unlocked(text: &str, sets: &[&str]) -> Plan {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Plan::read(TASKS, text, Path::new("c.toml"), &sets).expect("valid").plan
}

/// A run of one rank that stopped after its first update.
pub(crate) fn stopped(plan: &Plan, runs: &Path) -> RunFolder {
    let mut watcher = Watcher { stop_after: Some(1), ..Watcher::default() };
    train(plan, runs, None, &mut watcher).folder
}

pub(crate) const SYNCHRONIZED: &str = "train.distributed.batch_norm=synchronized";

#[test]
fn synchronized_batch_norms_train_as_one_rank() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for accumulate in ["train.accumulate=1", "train.accumulate=2"] {
        let sets = [SYNCHRONIZED, accumulate];
        let stopped = stopped(&plan(IMAGES, &sets), dir.path());
        let all = |size: usize| {
            let ranks = on_ranks(&stopped, IMAGES, &vec![&sets[..]; size]).into_iter();
            let ranks: Vec<_> = ranks.map(|rank| rank.expect("it trains")).collect();
            assert!(ranks.iter().all(|rank| rank.1.0 == ranks[0].1.0), "all ranks report the same");
            ranks.into_iter().next().expect("rank 0")
        };
        let alone = all(1);
        for size in [2, 3] {
            let ranks = all(size);
            let (ours, expected) = (&ranks.1.0, &alone.1.0);
            assert_eq!(ours.len(), expected.len());
            let far = (ours[0].1 - expected[0].1).abs() / expected[0].1;
            assert!(far < 1e-5, "{size} ranks: the first gradient differs by {far}");
            let last = ours.len() - 1;
            for step in [0, last / 2, last] {
                let (ours, expected) = (ours[step].0, expected[step].0);
                assert!((ours - expected).abs() < 1e-3, "step {step}: {ours}, {expected}");
            }
            let loss = |trained: &Trained| trained.test.as_ref().expect("a score").loss();
            let (ours, expected) = (loss(&ranks.0), loss(&alone.0));
            assert!(
                (ours - expected).abs() < 1e-3,
                "{size} ranks: {ours}, {expected} on the test data"
            );
        }
    }
}

#[test]
fn local_batch_norms_and_bf16_between_ranks_are_close_to_one_rank() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let stopped = stopped(&plan(IMAGES, &[SYNCHRONIZED]), dir.path());
    let first = |sets: &[&str]| {
        let ranks = on_ranks(&stopped, IMAGES, &[sets, sets]);
        ranks.into_iter().next().expect("rank 0").expect("it trains").1.0[0]
    };
    let expected = first(&[SYNCHRONIZED]);
    for (set, least, most) in [
        ("train.distributed.wire=bf16", 1e-6, 1e-2),
        ("train.distributed.batch_norm=local", 1e-4, 0.5),
    ] {
        let found = first(&[SYNCHRONIZED, set]);
        let far = (found.1 - expected.1).abs() / expected.1;
        assert!((least..most).contains(&far), "{set}: the gradient differs by {far}");
    }
}

#[test]
fn ranks_with_other_configurations_are_refused_with_both_values() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let stopped = stopped(&plan(ROWS, &[]), dir.path());
    for (set, expected) in [
        ("train.learning_rate=0.5", "`train.learning_rate` is `0.5` on rank 1"),
        ("train.distributed.wire=bf16", "`train.distributed` is `{"),
    ] {
        for rank in on_ranks(&stopped, ROWS, &[&[], &[set]]) {
            let text = rank.expect_err(set).to_string();
            assert!(text.contains(expected) && text.contains("on rank 0"), "{set}: {text}");
        }
    }
    let free = ["train.workers=2"];
    for rank in on_ranks(&stopped, ROWS, &[&[], &free]) {
        rank.expect("keys that change no result may differ");
    }
}

#[test]
fn other_data_and_storage_that_is_not_shared_are_refused_by_all_ranks() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let stopped = stopped(&plan(ROWS, &[]), dir.path());
    for rank in on_ranks_with(&stopped, ROWS, &[&[], &[], &[]], Differs::Data) {
        let text = rank.expect_err("other data").to_string();
        let digest = "the digest of the first training and test batches is `";
        assert!(text.contains(digest) && text.contains("` on rank 2 and `"), "{text}");
    }
    for rank in on_ranks_with(&stopped, ROWS, &[&[], &[]], Differs::Folder) {
        let text = rank.expect_err("not shared").to_string();
        assert!(text.contains("rank 1 does not see what rank 0 writes into"), "{text}");
    }
}

#[test]
fn every_rank_is_timed_in_the_record() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let stopped = stopped(&plan(ROWS, &[]), dir.path());
    let epochs = |size: usize| {
        let mut ranks = Vec::new();
        for rank in on_ranks(&stopped, ROWS, &vec![&[][..]; size]) {
            ranks.push(rank.expect("it trains").1.1);
        }
        ranks.swap_remove(0)
    };
    assert_eq!(epochs(1), [0, 0], "a run on one rank has no times of ranks");
    assert_eq!(epochs(3), [3, 3]);
}

/// Evaluates a run on several ranks, each with its own settings, and returns what each returned.
fn scored_on_ranks(
    run: &Path,
    text: &str,
    sets: &[&[&str]],
    views: Option<Views>,
) -> Vec<Result<Evaluation, RunError>> {
    let _alone = updraft_testing::alone();
    let engines = Threads::group(sets.len(), Duration::from_secs(120));
    thread::scope(|scope| {
        let ranks = engines.into_iter().zip(sets).map(|(mut engine, sets)| {
            scope.spawn(move || {
                let (plan, folder) = (unlocked(text, sets), RunFolder::open(run)?);
                let (device, selection) = device();
                let workload = workload(&plan, Some(&folder));
                let form = views.map_or(EvaluatedForm::Served, EvaluatedForm::Averaged);
                let evaluation = RankEvaluation {
                    plan: &plan,
                    folder: &folder,
                    form,
                    device: &device,
                    selection: &selection,
                    collective: &mut engine,
                    captured: None,
                };
                let scored = workload.evaluate_on_ranks(evaluation, &mut |_| Control::Continue)?;
                Ok(scored.expect("not stopped"))
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

#[test]
fn an_evaluation_on_several_ranks_has_the_bits_of_one() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let images = &["data.test_images=40"][..];
    for (text, sets) in [(IMAGES, images), (ROWS, &[])] {
        let plan = plan(text, sets);
        let folder = stopped(&plan, dir.path());
        let all = [None, Some(Views::Flip)];
        for views in &all[..if text == IMAGES { 2 } else { 1 }] {
            let mut alone = scored_on_ranks(folder.path(), text, &[sets], *views);
            let expected = alone.pop().expect("a rank").expect("a score");
            for size in [2, 3] {
                for score in scored_on_ranks(folder.path(), text, &vec![sets; size], *views) {
                    let score = score.expect("a score");
                    assert_eq!(score.loss().to_bits(), expected.loss().to_bits(), "{size} ranks");
                    assert_eq!(score, expected, "{size} ranks, {views:?}");
                }
            }
        }
    }
    let plan = plan(ROWS, &[]);
    let folder = stopped(&plan, dir.path());
    let other = &["train.batch=4"][..];
    for rank in scored_on_ranks(folder.path(), ROWS, &[&[], other], None) {
        let text = rank.expect_err("another batch size").to_string();
        assert!(text.contains("`train.batch` is `4` on rank 1"), "{text}");
    }
}
