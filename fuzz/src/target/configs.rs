//! Configurations, single settings, and the plans that run folders keep.

use std::fs;
use std::path::Path;

use updraft_run::{Plan, RunFolder, TASKS};

use crate::scratch;

pub(super) fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A configuration may name others to inherit from.
    let place = Path::new("/nowhere/fuzz.toml");
    let Ok(planned) = Plan::read(TASKS, text, place, &[]) else { return };
    let written = planned.plan.to_toml();
    let again = Plan::read(TASKS, &written, place, &[]);
    let again =
        again.unwrap_or_else(|error| panic!("{error} in a plan that was written:\n{written}"));
    assert_eq!(again.plan.to_toml(), written);
}

pub(super) fn config_seeds() -> Vec<Vec<u8>> {
    let trials = TASKS.iter().flat_map(|task| [task.trial(), task.quickstart()]);
    trials.map(|text| text.as_bytes().to_vec()).collect()
}

/// The first line is a number of a task, the others are settings.
pub(super) fn setting(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (task, settings) = text.split_once('\n').unwrap_or(("", text));
    let task = TASKS[task.len() % TASKS.len()];
    let settings: Vec<String> = settings.lines().map(str::to_owned).collect();
    let place = Path::new("/nowhere/fuzz.toml");
    if let Ok(planned) = Plan::read(TASKS, task.quickstart(), place, &settings) {
        let _ = planned.plan.run_settings(place).validate();
    }
}

pub(super) fn setting_seeds() -> Vec<Vec<u8>> {
    [
        "\ntrain.epochs=3\ntrain.schedule={kind='step',every_steps=2}\n",
        "x\ndata.noise=0.1\nmodel.hidden=[3,4]\n",
        "xx\nmodel.filters=[2,4]\ndata.patch=[8,8]\n",
        "xxx\nmodel.hidden=16\ntrain.target_weights=uncertainty\n",
        "\ntrain.loss={kind='focal',gamma=2}\naugment.mix_up.alpha=0.2\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// The plan of a run folder, beside the one with which it began.
pub(super) fn stored_plan(bytes: &[u8]) {
    let folder = scratch::folder("plan");
    fs::write(folder.join("plan.toml"), bytes).expect("written");
    let opened = RunFolder::open(&folder).expect("it has a plan");
    let Ok(plan) = opened.plan(TASKS) else { return };
    fs::write(folder.join(".plan.toml"), plan.to_toml()).expect("written");
    assert!(opened.edits(&plan).expect("a plan").is_empty());
    fs::write(folder.join(".plan.toml"), bytes).expect("written");
    let _ = opened.refuse_other_model(&plan);
}
