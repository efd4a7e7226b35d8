//! The checks of parts that a run relies on, which must fail where a part does.

use std::path::Path;

use updraft_run::verify_trained;
use updraft_run::{CheckResult, Plan, RunError, TASKS, TaskKind, TrainedInputs, VerifyInputs};

use crate::plans::read_with;
use crate::train::{device, workload};

fn plan(kind: &dyn TaskKind, sets: &[&str]) -> Plan {
    read_with(kind.trial(), sets).expect("valid").plan
}

fn of_trained(
    plan: &Plan,
    without_cache: Option<&Plan>,
    scratch: &Path,
) -> Result<Vec<CheckResult>, RunError> {
    let (device, selection) = &device();
    verify_trained(&TrainedInputs {
        plan,
        without_cache,
        device,
        selection,
        scratch,
        is_stopped: &|| false,
    })
}

fn of_dropout(plan: &Plan, scratch: &Path) -> CheckResult {
    let inputs = VerifyInputs {
        plan,
        with_workers: &[],
        parts: &["dropout"],
        device: &device().0,
        scratch,
        is_stopped: &|| false,
    };
    workload(plan, None).verify(&inputs).expect("not stopped").remove(0)
}

#[test]
fn int8_and_caches_are_checked_of_every_task_that_has_them() {
    let _alone = updraft_testing::alone();
    for kind in TASKS {
        let scratch = tempfile::tempdir().expect("temporary folder");
        let plan = plan(*kind, &[]);
        let without = match kind.without_cache() {
            [] => None,
            sets => Some(self::plan(*kind, sets)),
        };
        let results = of_trained(&plan, without.as_ref(), scratch.path()).expect("trained");
        let parts: Vec<_> = results.iter().map(|result| result.part).collect();
        let expected: &[&str] = match kind.name() {
            "image-classification" => &["int8", "cache"],
            "image-to-image" | "tables" => &["int8"],
            _ => &[],
        };
        assert_eq!(parts, expected, "{}", kind.name());
        assert!(results.iter().all(|result| result.passed), "{results:?}");
        for result in &results {
            let said = match result.part {
                "int8" => " dB of the signal of f32",
                _ => " ms from the cache, ",
            };
            assert!(result.message.contains(said), "{result:?}");
        }
    }
}

#[test]
fn data_that_differs_without_the_cache_fails_the_check_of_it_alone() {
    let _alone = updraft_testing::alone();
    let scratch = tempfile::tempdir().expect("temporary folder");
    let plan = plan(TASKS[0], &[]);
    let other = self::plan(TASKS[0], &["data.test_images=30"]);
    let results = of_trained(&plan, Some(&other), scratch.path()).expect("trained");
    assert_eq!(results.iter().map(|result| result.passed).collect::<Vec<_>>(), [true, false]);
    assert!(results[1].message.contains("with a cache"), "{results:?}");
}

#[test]
fn statistics_without_the_noise_of_dropout_are_checked_where_there_is_dropout() {
    let _alone = updraft_testing::alone();
    let scratch = tempfile::tempdir().expect("temporary folder");
    let noisy = plan(TASKS[0], TASKS[0].with_dropout());
    let result = of_dropout(&noisy, scratch.path());
    assert!(result.passed, "{result:?}");
    assert!(result.message.contains("without the noise of "), "{result:?}");
    // Without dropout the check would prove nothing, and says so.
    let quiet = plan(TASKS[0], TASKS[0].without_dropout());
    let result = of_dropout(&quiet, scratch.path());
    assert!(!result.passed, "{result:?}");
}
