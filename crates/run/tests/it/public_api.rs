//! Every promised name, imported.

#[expect(unused_imports, reason = "importing them is the test")]
use updraft_run::{
    Ability, About, AnyKey, AnyWorkload, AutoBatchPlan, BatchOf, BatchesPlan, Beginning,
    CalibrationSamples, Cause, ClassProbability, ConfigError, Key, KeyDefault, Keys,
    LabeledBatches, Layer, LogPlan, LrSearch, Observer, Opening, Outcome, Picture, Plan, Planned,
    Predicted, Quantity, Quantizable, RecomputePlan, Registry, RunError, RunFolder, RunSchema,
    Serving, Settings, StreamUse, Streams, TASKS, TaskDefault, TaskKind, TaskPlan, Tile, TrainPlan,
    Trained, TrainedModel, Training, Verdict, VerifyInputs, WorkersPlan, Workload, key_table, load,
    origins, read_metrics, rehearse,
};

#[test]
fn a_registry_of_tasks_can_be_told_apart_by_name() {
    let names: Vec<&str> = TASKS.iter().map(|kind| kind.name()).collect();
    assert_eq!(names, ["image-classification", "tabular-regression"]);
    assert!(Ability::ALL.iter().all(|ability| !ability.to_string().is_empty()));
}

#[test]
fn an_error_is_sent_between_threads() {
    fn is_sent<T: Send + Sync + std::error::Error + 'static>() {}
    is_sent::<RunError>();
    is_sent::<ConfigError>();
    fn moves<T: Send>() {}
    moves::<TrainedModel>();
}
