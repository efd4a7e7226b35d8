//! The GPU of these tests, and the records of runs on it.

use std::path::Path;

use serde_json::Value;
use updraft_device::{Backend, InventoryEntry, State};

use crate::command::metrics;

/// The largest difference from the CPU, relative to the CPU's number: losses and predictions of
/// networks whose factors a card may round to TF32, which has 11 bits.
pub(super) const CLOSE: f64 = 1e-3;

/// What to write after `--device` for the first GPU, or `None` with a message.
pub(super) fn gpu() -> Option<String> {
    found().map(|entry| entry.id.to_string())
}

/// Whether the first GPU computes in a dtype, by its name.
pub(super) fn computes_in(dtype: &str) -> bool {
    let facts = found().and_then(|entry| entry.facts);
    facts.is_some_and(|facts| facts.dtypes.iter().any(|it| it.dtype == dtype && it.computed))
}

/// Whether the first GPU is emulated on the processor, which rounds no factors.
pub(super) fn is_emulated() -> bool {
    found().is_some_and(|entry| entry.is_software)
}

#[expect(clippy::print_stderr, reason = "why a test passed without a device")]
fn found() -> Option<InventoryEntry> {
    let is_gpu = |entry: &InventoryEntry| {
        let is_cpu = matches!(entry.id.backend, Backend::Flex | Backend::CubeclCpu);
        !is_cpu && matches!(entry.state, State::Usable)
    };
    let found = updraft_device::probe().entries.into_iter().find(is_gpu);
    if found.is_none() {
        assert!(std::env::var_os("UPDRAFT_TEST_NEEDS_GPU").is_none(), "no GPU is usable");
        eprintln!("skipped: no GPU is usable in this build");
    }
    found
}

/// The updates of a run.
pub(super) fn steps(run: &Path) -> Vec<Value> {
    metrics(run).into_iter().filter(|line| line["event"] == "step").collect()
}

/// The losses of all updates of a run.
pub(super) fn losses(run: &Path) -> Vec<f64> {
    steps(run).iter().map(|line| line["loss"].as_f64().expect("a number")).collect()
}

/// Asserts that the losses of a run are those of another one within a share of each.
#[track_caller]
pub(super) fn assert_losses(found: &[f64], expected: &[f64], share: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        let is_close = (expected - found).abs() <= share * expected.abs();
        assert!(is_close, "{what}: {found} instead of {expected} in update {step}");
    }
}
