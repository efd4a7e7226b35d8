//! The results of a run of the benchmarks: medians, and our kernels beside burn's operations.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::results::median_ms;

/// An entry of the catalog.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) about: String,
    pub(super) rows: Vec<Row>,
}

/// A strategy.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) strategy: String,
    /// The role in the catalog, such as `dispatched`.
    role: String,
    /// What computed, with its version.
    pub(super) about: String,
    /// Wall-clock time of a repetition in milliseconds, the median; or why there is none.
    pub(super) median: Result<f64, String>,
}

/// The entries of a run's folder, and the version of burn that it was built with.
///
/// # Errors
/// If there is no run.
pub(super) fn read(folder: &Path) -> Result<(Vec<Entry>, Option<String>), String> {
    let path = folder.join("run.json");
    let text =
        fs::read_to_string(&path).map_err(|error| format!("`{}`: {error}", path.display()))?;
    let run: Value =
        serde_json::from_str(&text).map_err(|error| format!("`{}`: {error}", path.display()))?;
    let burn = run["machine"]["build"]["burn"].as_str().map(str::to_owned);
    Ok((of_run(&run), burn))
}

pub(super) fn of_run(run: &Value) -> Vec<Entry> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |outcome: &Value| {
        let reason = outcome["failure"].as_str().unwrap_or("not timed");
        let reason = reason.lines().next().unwrap_or_default().to_owned();
        Row {
            strategy: text(&outcome["strategy"]),
            role: text(&outcome["role"]),
            about: text(&outcome["about"]),
            median: median_ms(&outcome["timing"]["wall_ns"]).ok_or(reason),
        }
    };
    let entry = |entry: &Value| Entry {
        id: text(&entry["id"]),
        about: text(&entry["about"]),
        rows: entry["outcomes"].as_array().into_iter().flatten().map(row).collect(),
    };
    run["entries"].as_array().into_iter().flatten().map(entry).collect()
}

impl Entry {
    /// The time of burn's operations over that of our kernels, as a sentence, if both were timed.
    pub(super) fn beside_plain(&self) -> Option<String> {
        let of = |role: &str| self.rows.iter().find(|row| row.role == role);
        let (ours, plain) = (of("dispatched")?, of("baseline")?);
        let ratio = self.ratio(plain)?;
        let (ours, plain) = (&ours.strategy, &plain.strategy);
        Some(format!("plain (`{plain}`) takes {ratio:.2} × what `{ours}` takes"))
    }

    /// The time of a strategy over that of our kernels, if both were timed.
    pub(super) fn ratio(&self, row: &Row) -> Option<f64> {
        let ours = self.rows.iter().find(|row| row.role == "dispatched")?;
        Some(row.median.as_ref().ok()? / ours.median.as_ref().ok()?)
    }

    pub(super) fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "strategy": row.strategy, "role": row.role, "about": row.about,
                "median_ms": row.median.as_ref().ok(), "failure": row.median.as_ref().err(),
                "times_ours": self.ratio(row),
            })
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        json!({ "id": self.id, "rows": rows, "beside_plain": self.beside_plain() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_run() -> Value {
        let outcome = |strategy: &str, role: &str, wall_ns: &[f64]| {
            json!({
                "strategy": strategy, "role": role, "about": "a program", "failure": null,
                "timing": { "wall_ns": wall_ns, "cpu_ns": [1.0] },
            })
        };
        json!({
            "machine": { "build": { "burn": "0.22.1" } },
            "entries": [{ "id": "kan/a", "about": "a layer", "outcomes": [
                outcome("updraft-wgpu", "dispatched", &[2e6, 9e6, 1e6]),
                outcome("wgpu", "baseline", &[5e6]),
                { "strategy": "flashkan", "role": "peer", "about": null,
                  "failure": "No module\nmore", "timing": null },
            ] }],
        })
    }

    #[test]
    fn medians_are_of_wall_clock_time_and_failures_are_one_line() {
        let entries = of_run(&a_run());
        assert_eq!(entries.len(), 1);
        let Entry { id, rows, .. } = &entries[0];
        assert_eq!((id.as_str(), rows.len()), ("kan/a", 3));
        assert_eq!(rows[0].median, Ok(2.0));
        assert_eq!(rows[2].median, Err("No module".to_owned()));
    }

    #[test]
    fn burns_operations_are_compared_with_our_kernels() {
        let entry = &of_run(&a_run())[0];
        let expected = "plain (`wgpu`) takes 2.50 × what `updraft-wgpu` takes";
        assert_eq!(entry.beside_plain().as_deref(), Some(expected));
        assert_eq!(entry.ratio(&entry.rows[2]), None);
        let json = entry.json();
        assert_eq!(json["rows"][1]["times_ours"], 2.5);
        assert!(json["rows"][2]["median_ms"].is_null());
        let mut without = entry.clone();
        without.rows.remove(0);
        assert_eq!(without.beside_plain(), None);
    }
}
