//! Runs of random settings: stopped at a random update and resumed with other workers and another
//! cache, each ends in the bits of the run that was not stopped.

use std::path::Path;

use proptest::prelude::*;
use updraft_precision::Policy;
use updraft_run::{Plan, RunFolder, TASKS};
use updraft_trainer::{Ending, checkpoint_contents, list_checkpoints};

use crate::train::{Watcher, train};

/// A task's trial with random settings.
fn plan(task: usize, settings: &[String]) -> Plan {
    let _alone = updraft_testing::alone();
    let kind = TASKS[task];
    let mut settings = settings.to_vec();
    settings.push(format!("task={}", kind.name()));
    let plan = Plan::read(TASKS, kind.trial(), Path::new("the task's trial"), &settings);
    plan.unwrap_or_else(|error| panic!("{settings:?}: {error}")).plan
}

/// The caches of decoded images; the first decodes all of them at once and allows no faults.
const CACHES: [&str; 3] = ["{kind='whole'}", "{kind='memory',budget_mib=1}", "{kind='none'}"];

/// Everything that the newest checkpoint of a run holds.
pub(crate) fn contents(run: &RunFolder) -> std::collections::BTreeMap<String, String> {
    let newest = list_checkpoints(&run.path().join("checkpoints")).expect("listed").pop();
    checkpoint_contents(&newest.expect("a checkpoint")).expect("whole")
}

/// The policies that this machine trains under.
fn precisions() -> Vec<&'static str> {
    let mut all = vec!["f32", "bf16-mixed", "f16-mixed"];
    if Policy::BF16_PRODUCTS.check_device(&crate::train::device().0).is_ok() {
        all.push("bf16-products");
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stopped_run_of_any_settings_ends_in_the_bits_of_the_whole_one(
        task in 0..TASKS.len(),
        batch in 2..9_u64,
        accumulate in 1..4_u64,
        epochs in 1..4_u64,
        every in 1..6_u64,
        seed in 0..1_000_u64,
        workers in proptest::array::uniform3(0..4_u64),
        caches in proptest::array::uniform3(0..CACHES.len()),
        tolerates_faults in any::<bool>(),
        is_averaged in any::<bool>(),
        stop_after in 1..30_u64,
        precision in proptest::sample::select(precisions()),
        transfer in proptest::sample::select(vec!["auto", "when-used", "ahead"]),
        read_every in proptest::array::uniform3(1..5_u64),
    ) {
        let of = |part: usize| {
            let mut settings = vec![
                format!("train.batch={batch}"),
                format!("train.accumulate={accumulate}"),
                format!("train.epochs={epochs}"),
                format!("train.checkpoint_every_steps={every}"),
                format!("train.workers={}", workers[part]),
                format!("train.transfer={transfer}"),
                format!("precision={precision}"),
                format!("train.read_every={}", read_every[part]),
                format!("seed={seed}"),
            ];
            if is_averaged {
                settings.push("train.ema_decay=0.9".to_owned());
            }
            if TASKS[task].name() == "image-classification" {
                let cache = caches[part].max(usize::from(tolerates_faults));
                settings.push(format!("data.cache={}", CACHES[cache]));
                if tolerates_faults {
                    settings.push("data.faults={kind='skip',at_most=3}".to_owned());
                }
            }
            plan(task, &settings)
        };
        let dir = tempfile::tempdir().expect("temporary folder");
        let whole = train(&of(0), dir.path(), None, &mut Watcher::default());
        let mut watcher = Watcher { stop_after: Some(stop_after), ..Watcher::default() };
        let stopped = train(&of(1), dir.path(), None, &mut watcher);
        let ended = match stopped.ending {
            Ending::Stopped => {
                let folder = Some(stopped.folder);
                train(&of(2), dir.path(), folder, &mut Watcher::default())
            }
            _ => stopped,
        };
        prop_assert_eq!(contents(&ended.folder), contents(&whole.folder));
        prop_assert_eq!(ended.test, whole.test);
    }
}
