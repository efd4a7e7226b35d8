//! The batch sizes that earlier searches found, by model and device.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use updraft_data::read_regular;
use updraft_device::Selection;
use updraft_run::{AutoBatchPlan, Plan};

/// The file in the folder of the runs.
const FILE: &str = "batch-sizes.json";

/// The largest file that is read.
const MOST_BYTES: u64 = 64 << 20;

/// The limit of entries; the oldest is dropped.
const MOST: usize = 64;

/// The largest fraction of the present budget by which that of a search may be smaller: a new one would
/// find about as much more.
const SLACK: f64 = 0.1;

/// One search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    /// What the memory of a step depends on, see [`SearchKey`].
    key: Value,
    /// The budget of the search.
    budget_bytes: u64,
    /// The memory of a step of the batch.
    needed_bytes: u64,
    batch: usize,
}

/// What the memory of a training step depends on: the plan but for seed, epochs and learning rate, the
/// shape of the data, device, number of threads, and this program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SearchKey(Value);

impl SearchKey {
    /// The key of a plan; `signature` has the properties of the data that the model depends on.
    pub(crate) fn new(
        plan: &Plan,
        signature: &Value,
        selection: &Selection,
        (auto, samples): (&AutoBatchPlan, usize),
    ) -> Self {
        let mut table = plan.table().clone();
        for name in ["name", "seed", "log"] {
            table.remove(name);
        }
        if let Some(toml::Value::Table(train)) = table.get_mut("train") {
            for name in ["auto_batch", "batch", "epochs", "learning_rate", "schedule"] {
                train.remove(name);
            }
        }
        let mut signature = signature.clone();
        if let Value::Object(shape) = &mut signature {
            // Of the values of the data, which differ by seed.
            for name in ["fingerprint", "data_range"] {
                shape.remove(name);
            }
        }
        Self(json!({
            "program": this_program(),
            "plan": table,
            "signature": signature,
            "device": selection.id.to_string(),
            "hardware": selection.name,
            "threads": updraft_simd::pool_threads(),
            "least": auto.least,
            "most": auto.most.min(samples),
            "head_room": auto.head_room,
        }))
    }
}

/// The size and the time of this program's file: another build may need other memory.
fn this_program() -> Option<(u64, u64)> {
    let file = std::env::current_exe().and_then(fs::metadata).ok()?;
    let changed = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((file.len(), changed.as_secs()))
}

/// The file of a folder of runs.
pub(crate) fn path(runs: &Path) -> PathBuf {
    runs.join(FILE)
}

/// The searches of a folder, the oldest first; none if there is no file, or something else than a list
/// of searches, such as a pipe.
fn entries(runs: &Path) -> Vec<Entry> {
    read_regular(path(runs), MOST_BYTES)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// The batch of a search with the same key, if its step fits into this budget, and the budget of the
/// search was at most a tenth of this one smaller.
pub(crate) fn find(runs: &Path, key: &SearchKey, budget_bytes: u64) -> Option<usize> {
    let least = budget_bytes as f64 * (1.0 - SLACK);
    let is_usable = |entry: &&Entry| {
        entry.key == key.0
            && entry.needed_bytes <= budget_bytes
            && entry.budget_bytes as f64 >= least
            && entry.batch > 0
    };
    entries(runs).iter().rfind(is_usable).map(|entry| entry.batch)
}

/// Adds a search, in place of one with the same key.
///
/// # Errors
/// An error if the file cannot be written.
pub(crate) fn add(
    runs: &Path,
    key: SearchKey,
    (budget_bytes, needed_bytes): (u64, u64),
    batch: usize,
) -> Result<()> {
    let mut all = entries(runs);
    all.retain(|entry| entry.key != key.0);
    all.push(Entry { key: key.0, budget_bytes, needed_bytes, batch });
    all.drain(..all.len().saturating_sub(MOST));
    let whole = path(runs);
    let part = whole.with_extension(format!("{}.part", std::process::id()));
    let written = fs::create_dir_all(runs)
        .and_then(|()| fs::write(&part, serde_json::to_string_pretty(&all)?))
        .and_then(|()| fs::rename(&part, &whole));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.with_context(|| format!("cannot write {}", whole.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> SearchKey {
        SearchKey(json!({ "model": name }))
    }

    #[test]
    fn a_search_is_found_by_its_key_and_a_budget_that_it_fits_into() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let runs = dir.path().join("runs");
        assert_eq!(find(&runs, &key("a"), 1000), None);
        add(&runs, key("a"), (1000, 880), 7).expect("written");
        add(&runs, key("b"), (1000, 990), 9).expect("written");
        let at = |name, budget| find(&runs, &key(name), budget);
        assert_eq!([at("a", 1000), at("a", 1111), at("a", 880)], [Some(7); 3]);
        assert_eq!([at("b", 1000), at("b", 990)], [Some(9); 2]);
        // It does not fit, or more might.
        assert_eq!([at("a", 879), at("b", 989), at("a", 1112), at("c", 1000)], [None; 4]);
    }

    #[test]
    fn a_newer_search_replaces_one_and_the_oldest_are_dropped() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let runs = dir.path();
        add(runs, key("a"), (1000, 900), 7).expect("written");
        add(runs, key("a"), (2000, 1800), 8).expect("written");
        assert_eq!([find(runs, &key("a"), 1000), find(runs, &key("a"), 2000)], [None, Some(8)]);
        for index in 0..MOST {
            add(runs, key(&index.to_string()), (1, 1), 1).expect("written");
        }
        assert_eq!((entries(runs).len(), find(runs, &key("a"), 2000)), (MOST, None));
    }

    #[test]
    fn a_damaged_file_is_written_anew() {
        for damage in [&b"[{"[..], b"\xff\xfe", b"{}"] {
            let dir = tempfile::tempdir().expect("temporary folder");
            fs::write(path(dir.path()), damage).expect("written");
            assert_eq!(find(dir.path(), &key("a"), 1), None);
            add(dir.path(), key("a"), (1, 1), 7).expect("written");
            assert_eq!(find(dir.path(), &key("a"), 1), Some(7));
            let files = fs::read_dir(dir.path()).expect("a folder").count();
            assert_eq!(files, 1, "no part is left");
        }
    }
}
