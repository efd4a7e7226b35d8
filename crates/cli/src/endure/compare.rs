//! Comparison of two finished runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use updraft_run::{RunFolder, read_metrics};
use updraft_trainer::{checkpoint_contents, list_checkpoints};

/// Files of a finished run without measured values such as times.
const FILES: [&str; 3] = ["run.json", "pictures.json", "contributions.json"];

/// Suffixes of metric names whose values are measured and differ between runs: times, rates and
/// memory.
const MEASURED: [&str; 4] = ["_us", "_per_s", "_bytes", "_share"];

/// Fields of measured values: the times of every rank, and the load of the card.
const OBJECTS: [&str; 2] = ["ranks", "gpu"];

/// All parts of a run that must be equal to those of the undisturbed run, by name.
pub(super) struct Outcome(BTreeMap<String, String>);

impl Outcome {
    pub(super) fn of(run: &Path) -> Result<Self> {
        let mut parts = checkpoint_contents(&newest(run)?)?;
        let metrics = read_metrics(&RunFolder::open(run)?)?;
        for (number, mut line) in metrics.lines.into_iter().enumerate() {
            without_measures(&mut line);
            parts.insert(format!("metrics.jsonl line {:06}", number + 1), line.to_string());
        }
        for name in FILES {
            if let Ok(bytes) = std::fs::read(run.join(name)) {
                parts.insert(name.to_owned(), String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        Ok(Self(parts))
    }

    /// The first part that differs from that of the undisturbed run.
    pub(super) fn difference(&self, undisturbed: &Self) -> Option<String> {
        let names = undisturbed.0.keys().chain(self.0.keys());
        let differs = |name: &&String| self.0.get(*name) != undisturbed.0.get(*name);
        names.clone().find(differs).map(|name| match (self.0.get(name), undisturbed.0.get(name)) {
            (None, _) => format!("`{name}` is missing"),
            (_, None) => format!("`{name}` exists, but not in the undisturbed run"),
            (Some(found), Some(expected)) => {
                let short = |text: &str| text.chars().take(300).collect::<String>();
                format!("`{name}` differs: {} instead of {}", short(found), short(expected))
            }
        })
    }
}

/// The newest checkpoint of a run.
pub(super) fn newest(run: &Path) -> Result<PathBuf> {
    list_checkpoints(&run.join("checkpoints"))?.pop().context("the run has no checkpoint")
}

fn without_measures(line: &mut Value) {
    if let Some(fields) = line.as_object_mut() {
        fields.retain(|name, _| {
            let is_measured = MEASURED.iter().any(|ending| name.ends_with(ending));
            !is_measured && !OBJECTS.contains(&name.as_str())
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parts(parts: &[(&str, &str)]) -> Outcome {
        Outcome(parts.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect())
    }

    #[test]
    fn one_bit_more_or_less_is_a_difference() {
        let whole = parts(&[("a", "1"), ("b", "2")]);
        assert_eq!(whole.difference(&parts(&[("a", "1"), ("b", "2")])), None);
        for (other, expected) in [
            (parts(&[("a", "1"), ("b", "3")]), "`b` differs: 3 instead of 2"),
            (parts(&[("a", "1")]), "`b` is missing"),
            (parts(&[("a", "1"), ("b", "2"), ("c", "3")]), "`c` exists"),
        ] {
            let found = other.difference(&whole).expect("a difference");
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn only_measured_times_rates_and_memory_are_left_out() {
        let mut line = json!({ "step": 3, "step_us": 9, "samples_per_s": 2.5, "loss": 0.5,
                               "resident_bytes": 7, "ranks": [{ "train_us": 3 }], "test": { "loss": 1 } });
        without_measures(&mut line);
        assert_eq!(line, json!({ "step": 3, "loss": 0.5, "test": { "loss": 1 } }));
    }
}
