//! Trainings that end with numbers that are not finite.

use crate::command::{TASKS, run, succeed, texts};

#[test]
fn a_diverged_run_ends_with_another_exit_code_than_bad_input() {
    for small in &TASKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        let diverging = "train.optimizer={ kind = \"sgd\", momentum = 0.0 }";
        let sets = [diverging, "train.learning_rate=1e30", "train.schedule={kind='constant'}"];
        let said = run(dir.path(), &texts(&small.arguments("train", &sets)));
        assert_eq!(said.code, 1, "{}: {}", small.task, said.stderr);
        assert!(said.stderr.contains("not finite"), "{}", said.stderr);
        // The same of a comparison, whose runs are processes of their own.
        let mut arguments = small.arguments("compare", &sets);
        let arms = ["--seeds", "1", "--arm", "train.workers=0", "--arm", "train.workers=1"];
        arguments.extend(arms.map(str::to_owned));
        let said = run(dir.path(), &texts(&arguments));
        assert_eq!(said.code, 1, "{}: {}", small.task, said.stderr);
        let bad = run(dir.path(), &texts(&small.arguments("train", &["train.epochs=0"])));
        assert_eq!(bad.code, 2, "{}", bad.stderr);
    }
}

#[test]
fn a_run_whose_test_loss_is_not_finite_ends_with_an_error() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let small = TASKS.iter().find(|small| small.task == "image-to-image").expect("a task");
    // A single step, whose loss is finite.
    let sets = [
        "data.patches=1",
        "data.train_fields=3",
        "train.batch=3",
        "train.epochs=1",
        "train.optimizer={kind='sgd',momentum=0.0}",
        "train.learning_rate=1e30",
        "train.schedule={kind='constant'}",
    ];
    let said = run(dir.path(), &texts(&small.arguments("train", &sets)));
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("error: the test loss is "), "{}", said.stderr);
    assert!(!said.stderr.contains("next "), "{}", said.stderr);
}

#[test]
fn a_finished_run_of_weights_that_are_not_finite_is_not_resumed_to_its_old_score() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let sets = [
        "train.optimizer={kind='sgd',momentum=0.0}",
        "train.learning_rate=1e30",
        "train.schedule={kind='constant'}",
        "train.non_finite={kind='ignore'}",
    ];
    let folder = TASKS[0].succeed(dir.path(), "train", &sets).run_folder();
    let said = run(dir.path(), &["train", "--resume", folder.to_str().expect("text")]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
    assert!(said.stderr.contains("is not finite"), "{}", said.stderr);
    assert!(!said.stderr.contains("next "), "{}", said.stderr);
}

#[test]
fn a_run_that_ignores_what_is_not_finite_still_has_a_page() {
    for small in &TASKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        let diverging = "train.optimizer={ kind = \"sgd\", momentum = 0.0 }";
        let sets = [
            diverging,
            "train.learning_rate=1e30",
            "train.schedule={kind='constant'}",
            "train.non_finite={kind='ignore'}",
        ];
        let folder = small.succeed(dir.path(), "train", &sets).run_folder();
        succeed(dir.path(), &["report", folder.to_str().expect("text")]);
    }
}
