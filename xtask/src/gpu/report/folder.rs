//! The folder of a report: its name, its files, and the rows of the index of saved runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::super::suite::Run;
use super::checks::Check;
use super::entries::Entry;
use super::page::page;
use super::samples::{self, Sample, Summary};
use super::size::{Bench, Size};
use crate::{root, target};

/// The version of the format of `report.json`.
const VERSION: u32 = 1;

/// What a report has so far.
pub(super) struct Report {
    pub(super) unix_s: u64,
    pub(super) device: String,
    /// The adapter's name, as the tests print it.
    pub(super) adapter: String,
    pub(super) is_emulated: bool,
    pub(super) size: Size,
    /// Why it has this size.
    pub(super) why_size: String,
    pub(super) checks: Vec<Check>,
    /// Names and versions of what took part.
    pub(super) versions: Vec<(&'static str, String)>,
    /// What the driver reports of the card.
    pub(super) card: Option<Value>,
    /// Why the card is not sampled, if so.
    pub(super) unsampled: Option<&'static str>,
    pub(super) suite: Vec<Run>,
    pub(super) timed: Vec<Timed>,
}

/// A benchmark that ran.
pub(super) struct Timed {
    pub(super) bench: Bench,
    pub(super) seconds: f64,
    /// Why it did not come to its end, if so.
    pub(super) failure: Option<String>,
    pub(super) entries: Vec<Entry>,
    /// The card before and after.
    pub(super) around: [Option<Sample>; 2],
    pub(super) during: Option<Summary>,
}

impl Report {
    /// Writes all files anew, so that a report that is stopped has what came before.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(&self, folder: &Path, name: &str) -> Result<(), String> {
        fs::create_dir_all(folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
        for (file, text) in
            [("report.json", format!("{:#}\n", self.json())), ("index.html", page(self, name))]
        {
            let path = folder.join(file);
            fs::write(&path, text).map_err(|error| format!("`{}`: {error}", path.display()))?;
        }
        Ok(())
    }

    /// The benchmarks that did not run yet.
    pub(super) fn not_run(&self) -> Vec<&'static str> {
        let names = self.size.benches().into_iter().map(|bench| bench.name);
        names.filter(|name| self.timed.iter().all(|timed| timed.bench.name != *name)).collect()
    }

    /// What failed: tests, and benchmarks that did not come to their end.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults: Vec<_> = self.suite.iter().flat_map(Run::faults).collect();
        let failed = |timed: &Timed| {
            Some(format!("benchmark `{}`: {}", timed.bench.name, timed.failure.as_ref()?))
        };
        faults.extend(self.timed.iter().filter_map(failed));
        faults
    }

    fn json(&self) -> Value {
        let timed = |timed: &Timed| {
            let Timed { bench, seconds, failure, entries, around, during } = timed;
            let [before, after] = around.map(|sample| sample.as_ref().map(samples::json));
            json!({
                "name": bench.name, "filter": bench.filter, "seconds": seconds,
                "failure": failure, "run": format!("{}/run.json", bench.name),
                "entries": entries.iter().map(Entry::json).collect::<Vec<_>>(),
                "card_before": before, "card_after": after,
                "card_during": during.as_ref().map(Summary::json),
            })
        };
        let versions = self.versions.iter().map(|(name, version)| json!([name, version]));
        json!({
            "version": VERSION, "taken_unix_s": self.unix_s, "device": self.device,
            "adapter": self.adapter, "is_emulated": self.is_emulated,
            "size": self.size.name(), "size_reason": self.why_size,
            "checks": self.checks.iter().map(Check::json).collect::<Vec<_>>(),
            "versions": versions.collect::<Vec<_>>(), "card": self.card,
            "not_sampled": self.unsampled, "faults": self.faults(), "not_run": self.not_run(),
            "suite": self.suite.iter().map(Run::json).collect::<Vec<_>>(),
            "benchmarks": self.timed.iter().map(timed).collect::<Vec<_>>(),
        })
    }

    /// The rows that `benches/runs/README.md` needs if the folder is copied there, one line each.
    pub(super) fn rows(&self, name: &str) -> String {
        let version = |of: &str| self.versions.iter().find(|(name, _)| *name == of);
        let driver = version("driver").map_or_else(String::new, |(_, it)| format!(", driver {it}"));
        let (device, card) = (&self.device, short(&self.adapter));
        let row = |timed: &Timed| {
            let Bench { name: bench, filter, .. } = timed.bench;
            let run = format!("[{name}/{bench}]({name}/{bench}/run.json)");
            format!("| {card} | `{device}`{driver} | `{filter}` by `{device}` | {run} |\n")
        };
        let complete = self.timed.iter().filter(|timed| !timed.entries.is_empty());
        complete.map(row).collect()
    }
}

/// The name of an adapter without its number and its remarks.
pub(super) fn short(adapter: &str) -> &str {
    let name = adapter.split_once(": ").map_or(adapter, |(_, name)| name);
    // `Intel(R)` is a part of the name.
    let name = name.split(',').next().unwrap_or(name);
    name.split(" (").next().unwrap_or(name).trim()
}

/// A name that no folder has yet in some places: date and card.
pub(super) fn free_name(unix_s: u64, adapter: &str, places: &[PathBuf]) -> String {
    let is_free = |name: &String| places.iter().all(|place| !place.join(name).exists());
    let name = format!("{}-{}", date(unix_s), slug(short(adapter)));
    let later = (2..).map(|again| format!("{name}-{again}"));
    let mut names = std::iter::once(name.clone()).chain(later).filter(is_free);
    names.next().expect("there is always a larger number")
}

/// The places in which the name of a report has to be free: here, and among the saved runs.
pub(super) fn places() -> [PathBuf; 2] {
    [reports(), root().join("benches").join("runs")]
}

/// The folder of reports.
pub(super) fn reports() -> PathBuf {
    target().join("gpu-report")
}

/// Seconds since 1970, UTC.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The day of a moment in the proleptic Gregorian calendar, `YYYY-MM-DD`, UTC.
///
/// # Source
/// H. Hinnant, chrono-Compatible Low-Level Date Algorithms: `civil_from_days`.
pub(super) fn date(unix_s: u64) -> String {
    let days = unix_s / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{:02}", of_year - (153 * shifted + 2) / 5 + 1)
}

/// Letters and digits, joined by `-`.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::super::extent::Extent;
    use super::super::super::outcome::{Counts, Outcome};
    use super::super::checks::Verdict;
    use super::*;

    const LAVAPIPE: &str = "wgpu:0: llvmpipe (LLVM 15.0.6, 256 bits), emulated on the processor";

    /// A report of one benchmark without results.
    pub(in crate::gpu::report) fn a_report() -> Report {
        let (size, why_size) = Size::of(true, None);
        let outcome = Outcome {
            folder: "kan",
            proves: "kernels",
            counts: Counts { passed: 3, failed: 1, skipped: 0 },
            seconds: 2.0,
            fault: Some("1 tests <failed>".to_owned()),
        };
        let run = Run {
            backend: "wgpu".to_owned(),
            with: None,
            extent: Extent::All,
            adapters: vec![LAVAPIPE.to_owned()],
            digest: None,
            outcomes: vec![outcome],
        };
        let note = Verdict::Note("a <note>".to_owned());
        Report {
            unix_s: 1_763_683_200,
            device: "wgpu".to_owned(),
            adapter: LAVAPIPE.to_owned(),
            is_emulated: true,
            size,
            why_size,
            checks: vec![Check { subject: "disk", found: "9 GiB".to_owned(), verdict: note }],
            versions: vec![("rustc", "1.95.0".to_owned()), ("driver", "580.1".to_owned())],
            card: None,
            unsampled: Some("a reason"),
            suite: vec![run],
            timed: Vec::new(),
        }
    }

    /// The KAN layers of [`a_report`].
    pub(in crate::gpu::report) fn a_benchmark(entries: Vec<Entry>) -> Timed {
        let bench = Size::Small.benches().into_iter().find(|bench| bench.name == "kan").unwrap();
        let sample = [Some(1500.0), None, Some(50.0), None, None, None];
        Timed {
            bench,
            seconds: 60.0,
            failure: Some("was stopped".to_owned()),
            entries,
            around: [Some(sample), None],
            during: Summary::of(&[sample]),
        }
    }

    fn an_entry() -> Entry {
        Entry { id: "kan/a".to_owned(), about: String::new(), rows: Vec::new() }
    }

    #[test]
    fn names_are_of_the_day_and_the_card() {
        assert_eq!(short(LAVAPIPE), "llvmpipe");
        assert_eq!(short("cuda:0: NVIDIA H100 80GB HBM3"), "NVIDIA H100 80GB HBM3");
        assert_eq!(short("a card"), "a card");
        let intel = "vulkan:0: Intel(R) Arc(tm) A770 Graphics (DG2)";
        assert_eq!(short(intel), "Intel(R) Arc(tm) A770 Graphics");
        let name = free_name(1_763_683_200, "cuda:0: A Card (R) 1", &[]);
        assert_eq!(name, "2025-11-21-a-card");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(0), "1970-01-01");
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let place = target().join("tmp").join("gpu-report-names");
        for taken in ["2025-11-21-a-card", "2025-11-21-a-card-2"] {
            fs::create_dir_all(place.join(taken)).unwrap();
        }
        let name = free_name(1_763_683_200, "cuda:0: A Card", &[place]);
        assert_eq!(name, "2025-11-21-a-card-3");
    }

    #[test]
    fn the_json_has_the_tests_the_benchmarks_and_every_fault() {
        let mut report = a_report();
        report.timed.push(a_benchmark(vec![an_entry()]));
        let faults = report.faults();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("1 tests") && faults[1].contains("was stopped"), "{faults:?}");
        let json = report.json();
        assert_eq!(json["faults"][1], "benchmark `kan`: was stopped");
        assert_eq!(json["suite"][0]["cases"][0]["failed"], 1);
        assert_eq!(json["size"], "small");
        assert_eq!(json["not_run"], json!(["matmul", "infer", "int8", "train"]));
        let kan = &json["benchmarks"][0];
        assert_eq!(kan["run"], "kan/run.json");
        assert_eq!(kan["card_before"]["temperature_c"], 50.0);
        assert!(kan["card_after"].is_null());
        assert_eq!(kan["card_during"]["values"]["clock_mhz"]["mean"], 1500.0);
    }

    /// The index's test reads the processor, the filter and the folder of a row.
    #[test]
    fn the_rows_are_those_of_the_index_of_saved_runs() {
        let mut report = a_report();
        report.timed = vec![a_benchmark(vec![an_entry()]), a_benchmark(Vec::new())];
        let expected = "| llvmpipe | `wgpu`, driver 580.1 | `kan/training-b256-512to512-*` by \
                        `wgpu` | \
                        [day-card/kan](day-card/kan/run.json) |\n";
        assert_eq!(report.rows("day-card"), expected);
    }

    #[test]
    fn a_report_is_written_as_a_page_and_as_json() {
        let folder = target().join("tmp").join("gpu-report-folder");
        a_report().write(&folder, "day-card").unwrap();
        let json = fs::read_to_string(folder.join("report.json")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["version"], VERSION);
        assert!(fs::read_to_string(folder.join("index.html")).unwrap().starts_with("<!doctype"));
    }
}
