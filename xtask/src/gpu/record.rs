//! The record of the last tests on each backend, which `cargo xtask tidy` compares with the
//! sources.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use serde_json::{Value, json};

use super::outcome::Outcome;
use super::suite::Run;
use crate::root;
use crate::tidy::DEVICE_RECORD;

/// Replaces the entry of the run's backend, and returns the path of the record.
///
/// # Errors
/// If the record cannot be read or written.
pub(super) fn write(run: &Run) -> Result<&'static str, String> {
    let path = root().join(DEVICE_RECORD);
    let old = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => "{}".to_owned(),
        Err(error) => return Err(format!("`{DEVICE_RECORD}`: {error}")),
    };
    let text = replaced(&old, run)?;
    fs::write(&path, text).map_err(|error| format!("`{DEVICE_RECORD}`: {error}"))?;
    Ok(DEVICE_RECORD)
}

/// The record with the run, sorted by backend: without times, so that it is the same for the same
/// sources, adapters and tests.
fn replaced(old: &str, run: &Run) -> Result<String, String> {
    let old: Value =
        serde_json::from_str(old).map_err(|error| format!("`{DEVICE_RECORD}`: {error}"))?;
    let key = |backend: &str, with: &str| format!("{backend} {with}").trim_end().to_owned();
    let mut entries = BTreeMap::new();
    for entry in old["runs"].as_array().into_iter().flatten() {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        entries.insert(key(text("backend"), text("with")), entry.clone());
    }
    let with = run.with.as_deref().unwrap_or_default();
    entries.insert(key(&run.backend, with), entry(run));
    let runs = Value::from(entries.into_values().collect::<Vec<_>>());
    Ok(format!("{:#}\n", json!({ "runs": runs })))
}

fn entry(run: &Run) -> Value {
    let passed = |Outcome { folder, counts, .. }: &Outcome| ((*folder).to_owned(), counts.passed);
    let skipped: u64 = run.outcomes.iter().map(|outcome| outcome.counts.skipped).sum();
    json!({
        "backend": run.backend, "with": run.with, "adapters": run.adapters, "digest": run.digest,
        "passed": run.outcomes.iter().map(passed).collect::<BTreeMap<_, _>>(), "skipped": skipped,
    })
}

#[cfg(test)]
mod tests {
    use super::super::extent::Extent;
    use super::super::outcome::Counts;
    use super::*;

    fn run(backend: &str, with: Option<&str>, digest: &str) -> Run {
        Run {
            backend: backend.to_owned(),
            with: with.map(str::to_owned),
            extent: Extent::All,
            adapters: vec!["llvmpipe".to_owned()],
            digest: Some(digest.to_owned()),
            outcomes: vec![Outcome {
                folder: "kan",
                proves: "kernels",
                counts: Counts { passed: 3, failed: 0, skipped: 1 },
                seconds: 2.0,
                fault: None,
            }],
        }
    }

    #[test]
    fn a_run_replaces_the_entry_of_its_backend_alone() {
        let first = replaced("{}", &run("wgpu", None, "aa")).unwrap();
        let second = replaced(&first, &run("cuda", None, "aa")).unwrap();
        let third = replaced(&second, &run("wgpu", Some("fusion"), "bb")).unwrap();
        let last = replaced(&third, &run("wgpu", None, "bb")).unwrap();
        let last: Value = serde_json::from_str(&last).unwrap();
        let runs = last["runs"].as_array().unwrap();
        let names: Vec<_> = runs.iter().map(|run| (&run["backend"], &run["digest"])).collect();
        let expected = [("cuda", "aa"), ("wgpu", "bb"), ("wgpu", "bb")];
        assert_eq!(names.len(), 3);
        for ((backend, digest), expected) in names.iter().zip(expected) {
            assert_eq!((backend.as_str().unwrap(), digest.as_str().unwrap()), expected);
        }
        assert_eq!(runs[0]["passed"]["kan"], 3);
        assert!(replaced("not JSON", &run("wgpu", None, "aa")).is_err());
    }

    #[test]
    fn the_same_run_gives_the_same_bytes() {
        let once = replaced("{}", &run("wgpu", None, "aa")).unwrap();
        assert_eq!(replaced(&once, &run("wgpu", None, "aa")).unwrap(), once);
    }
}
