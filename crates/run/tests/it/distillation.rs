//! Distillation: a student of a trained run, and teachers that are refused.

use std::path::Path;

use updraft_run::{Plan, RunError, RunFolder};
use updraft_trainer::Ending;

use crate::plans::read;
use crate::train::{ROWS, Watcher, train, try_train};
use crate::whitened::weights;

fn plan(model: &str, train: &str) -> Plan {
    read(&text(model, train)).expect("valid")
}

fn text(model: &str, train: &str) -> String {
    format!(
        "data = {{ height = 16, width = 16, train_images = 240, test_images = 40 }}\n\
         model = {model}\n\
         train = {{ epochs = 2, batch = 24, learning_rate = 0.01, {train} }}\n"
    )
}

fn taught_by(teacher: &Path, more: &str) -> String {
    format!("teacher = \"{}\"{more}", teacher.display())
}

const STUDENT: &str = "{ kind = \"separable\", channels = 4 }";

#[test]
fn a_student_learns_from_a_teacher_and_resumes_to_the_same_bits() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let of_teacher = plan("{ channels = 8 }", "");
    let teacher = train(&of_teacher, dir.path(), None, &mut Watcher::default()).folder;
    let name = "blocks.4.pointwise.conv.weight";
    let trained = |train_keys: &str| {
        let plan = plan(STUDENT, train_keys);
        let folder = train(&plan, dir.path(), None, &mut Watcher::default()).folder;
        (weights(&folder, &plan, name), plan)
    };
    let taught = taught_by(teacher.path(), ", temperature = 3.0, soft_share = 0.75");
    let (with_teacher, plan) = trained(&taught);
    let (alone, _) = trained("label_smoothing = 0.0");
    assert_ne!(with_teacher, alone, "the teacher changes what is learnt");
    // Without a share of the teacher, it is training on the labels, bit for bit.
    let (unheard, _) = trained(&taught_by(teacher.path(), ", soft_share = 0.0"));
    assert_eq!(unheard, alone);

    let mut watcher = Watcher { stop_after: Some(7), ..Watcher::default() };
    let stopped = train(&plan, dir.path(), None, &mut watcher).folder;
    let resumed = train(&plan, dir.path(), Some(stopped), &mut Watcher::default());
    assert_eq!(resumed.ending, Ending::Complete);
    assert_eq!(weights(&resumed.folder, &plan, name), with_teacher);
}

#[test]
fn teachers_of_something_else_are_refused_before_the_training() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let other = |text: &str| {
        let plan = read(text).expect("valid");
        train(&plan, dir.path(), None, &mut Watcher::default()).folder
    };
    let refused = |teacher: &Path| {
        let plan = plan(STUDENT, &taught_by(teacher, ""));
        let opening = updraft_run::Opening { dir: None, run: None, progress: &mut |_, _| {} };
        match plan.task.open(&plan, opening) {
            Err(error @ RunError::Unusable { .. }) => error.to_string(),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("a teacher of something else"),
        }
    };
    let smaller = text("{ channels = 4 }", "").replace("height = 16", "height = 24");
    let error = refused(other(&smaller).path());
    assert!(error.contains("a run whose `data.height` is 24; it must be one whose"), "{error}");
    let error = refused(other(ROWS).path());
    assert!(error.contains("a run of `tables`; it must be one of `image-class"), "{error}");

    // The same classes in another order, and one less.
    let teacher = other(&text("{ channels = 4 }", ""));
    let path = teacher.path().join("classes.json");
    let classes: Vec<String> =
        serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("names");
    let mut turned = classes.clone();
    turned.swap(0, 1);
    teacher.write_bound_json("classes.json", &turned).expect("written");
    let error = refused(teacher.path());
    let expected = format!("a run whose class `{}` is `{}` here", classes[1], classes[0]);
    assert!(error.contains(&expected), "{error}");
    turned.pop();
    teacher.write_bound_json("classes.json", &turned).expect("written");
    let error = refused(teacher.path());
    let expected = format!("a run of {} classes; it must be", classes.len() - 1);
    assert!(error.contains(&expected), "{error}");
    assert!(error.contains(&format!("the same {} classes", classes.len())), "{error}");
}

#[test]
fn a_run_continues_with_the_teacher_that_it_began_with_only() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let other = |text: &str| {
        let plan = read(text).expect("valid");
        train(&plan, dir.path(), None, &mut Watcher::default()).folder
    };
    let teacher = other(&text("{ channels = 4 }", ""));
    // A plan loads its teacher once: each process has its own.
    let plan = || plan(STUDENT, &taught_by(teacher.path(), ""));
    let mut watcher = Watcher { stop_after: Some(7), ..Watcher::default() };
    let stopped = train(&plan(), dir.path(), None, &mut watcher).folder;
    let continued = || {
        let folder = RunFolder::open(stopped.path()).expect("a run");
        let plan = plan();
        let refused = try_train(&plan, dir.path(), Some(folder), &mut Watcher::default());
        refused.expect_err("another teacher").to_string()
    };
    // The same network with other numbers.
    let relabeled = other(&text("{ channels = 4 }", "label_smoothing = 0.1"));
    std::fs::remove_dir_all(teacher.path()).expect("removed");
    std::fs::rename(relabeled.path(), teacher.path()).expect("renamed");
    let error = continued();
    assert!(error.contains("the one that this run began with"), "{error}");
    // One of other classes.
    teacher.write_bound_json("classes.json", &["a", "b"]).expect("written");
    let error = continued();
    assert!(error.contains("a run of 2 classes; it must be one of the same"), "{error}");
}

#[test]
fn settings_of_a_teacher_need_one() {
    let error = read(&text(STUDENT, "temperature = 3.0")).expect_err("refused").to_string();
    assert!(error.contains("train.temperature"), "{error}");
    let error = read(&text(STUDENT, "teacher = \"runs/x\", soft_share = 1.5"))
        .expect_err("refused")
        .to_string();
    assert!(error.contains("`train.soft_share` is 1.5; it must be 0 to 1"), "{error}");
}
