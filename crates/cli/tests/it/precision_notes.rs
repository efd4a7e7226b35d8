//! What a run reports about its precision before its first step.

use updraft_device::{open, probe, select};
use updraft_precision::Policy;

use crate::command::TASKS;

#[test]
fn products_of_bf16_that_no_layer_has_are_reported() {
    let selection = select(&"flex".parse().expect("a device"), &probe()).expect("compiled in");
    let device = open(&selection).expect("it opens");
    if Policy::BF16_PRODUCTS.check_device(&device).is_err() {
        // Such a run is refused.
        return;
    }
    let dir = tempfile::tempdir().expect("temporary folder");
    for (task, is_reported) in [("tables", true), ("masked-images", false)] {
        let mut small = TASKS.iter().filter(|small| small.task == task);
        // Of the tables, the one without splines.
        let small = small.next_back().expect("a task");
        let sets = ["precision=bf16-products", "train.epochs=1", "device=flex"];
        let said = small.succeed(dir.path(), "train", &sets).stderr;
        let text = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_found = text.contains("no layer of this network multiplies bf16 on this processor");
        assert_eq!(is_found, is_reported, "{task}: {said}");
    }
}
