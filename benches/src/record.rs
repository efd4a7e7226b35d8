//! A run of the catalogue as a file: written whole, read with its version checked, compared.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::measure::Measured;

/// The version of the format; one more with every change that an older reader would misread.
const VERSION: u32 = 1;

const FILE: &str = "run.json";

/// A run of the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) version: u32,
    /// Seconds since 1970, UTC.
    pub(crate) taken_unix_s: u64,
    pub(crate) machine: Machine,
    pub(crate) entries: Vec<Measured>,
}

impl Record {
    pub(crate) fn new(machine: Machine, entries: Vec<Measured>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { version: VERSION, taken_unix_s: since.as_secs(), machine, entries }
    }

    /// Reads a saved run, by its folder or its file.
    ///
    /// # Errors
    /// If the file does not exist, is not a run, or has another version.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let file = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("reading the run `{}`", file.display()))?;
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let no_run = || format!("`{}` is not a saved run", file.display());
        let Versioned { version } = serde_json::from_str(&text).with_context(no_run)?;
        ensure!(
            version == VERSION,
            "`{}` has version {version} of the format; this program reads {VERSION}",
            file.display()
        );
        serde_json::from_str(&text).with_context(no_run)
    }

    /// Writes the run to `run`, a folder of [`new_run`]; what was there before is replaced.
    ///
    /// # Errors
    /// If it cannot be written; no partial file remains.
    pub(crate) fn save(&self, run: &Path) -> Result<()> {
        std::fs::create_dir_all(run).with_context(|| format!("making `{}`", run.display()))?;
        write_whole(&run.join(FILE), &(serde_json::to_string_pretty(self)? + "\n"))
    }
}

/// Writes a file that is there whole or not at all.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<()> {
    let writing = || format!("writing `{}`", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut whole = tempfile::Builder::new();
    // Others may read it, as any file that a program writes.
    #[cfg(unix)]
    whole.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let mut whole = whole
        .prefix(".whole-")
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .with_context(writing)?;
    whole.write_all(text.as_bytes()).with_context(writing)?;
    whole.as_file().sync_all().with_context(writing)?;
    whole.persist(path).with_context(writing)?;
    Ok(())
}

/// A folder for a run that is not there yet: `folder/<date>-<machine>`.
pub(crate) fn new_run(record: &Record, folder: &Path) -> PathBuf {
    let Machine { fingerprint, gpu, .. } = &record.machine;
    let machine = gpu.as_ref().map_or(&fingerprint.cpu, |gpu| &gpu.card.name);
    let name = format!("{}-{}", date(record.taken_unix_s), slug(machine));
    let later = (2..).map(|again| folder.join(format!("{name}-{again}")));
    let mut free = std::iter::once(folder.join(&name)).chain(later).filter(|run| !run.exists());
    free.next().expect("there is always a larger number")
}

/// The change of a strategy's time between two runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    pub(crate) entry: String,
    pub(crate) strategy: String,
    /// Medians in nanoseconds.
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// The larger of the two spreads, as a share: changes below it say nothing.
    pub(crate) spread: f64,
}

/// Refuses runs of different machines, cards or numbers of threads.
///
/// # Errors
/// If the machines differ.
pub(crate) fn expect_same(before: &Machine, after: &Machine) -> Result<()> {
    let of = |machine: &Machine| {
        let card = machine.gpu.as_ref().map(|gpu| gpu.card.clone());
        (machine.fingerprint.clone(), card)
    };
    let (a, b) = (&of(before), &of(after));
    if a != b {
        let (a, b) = (serde_json::to_string(a)?, serde_json::to_string(b)?);
        bail!("the runs come from different machines and cannot be compared:\n  {a}\n  {b}");
    }
    Ok(())
}

/// Compares the common entries of two runs.
///
/// # Errors
/// If they were measured on different machines, or have no common entries.
pub(crate) fn compare(before: &Record, after: &Record) -> Result<Vec<Change>> {
    expect_same(&before.machine, &after.machine)?;
    let threads = after.machine.fingerprint.threads;
    let mut changes = Vec::new();
    for entry in &after.entries {
        let Some(old) = before.entries.iter().find(|old| old.id == entry.id) else { continue };
        for outcome in &entry.outcomes {
            let same = old.outcomes.iter().find(|old| old.strategy == outcome.strategy);
            let summary = |timing: &Option<crate::measure::Timing>| {
                timing.as_ref().and_then(|timing| timing.summary(threads))
            };
            let (Some(old), Some(new)) =
                (same.and_then(|old| summary(&old.timing)), summary(&outcome.timing))
            else {
                continue;
            };
            changes.push(Change {
                entry: entry.id.clone(),
                strategy: outcome.strategy.clone(),
                before: old.median,
                after: new.median,
                spread: old.spread.max(new.spread),
            });
        }
    }
    ensure!(!changes.is_empty(), "the runs have no timing in common");
    Ok(changes)
}

/// The day of a moment in the proleptic Gregorian calendar, `YYYY-MM-DD`, UTC.
///
/// # Source
/// H. Hinnant, chrono-Compatible Low-Level Date Algorithms: `civil_from_days`.
pub(crate) fn date(unix_s: u64) -> String {
    let days = unix_s / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{:02}", of_year - (153 * shifted + 2) / 5 + 1)
}

/// A name as a part of a path: letters and digits, joined by `-`.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Role;
    use crate::synthetic;

    fn record(cpu: &str, wall_ns: f64) -> Record {
        synthetic::run(cpu, &[("flex", Role::Dispatched, Some(wall_ns))])
    }

    #[test]
    fn a_saved_run_reads_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = record("A CPU (R) @ 2.5 GHz", 10.0);
        let first = new_run(&record, folder.path());
        record.save(&first).expect("saved");
        let second = new_run(&record, folder.path());
        assert_ne!(first, second);
        record.save(&second).expect("saved beside the first");
        record.save(&second).expect("saved again with what came since");
        assert_eq!(Record::read(&first).expect("whole"), record);
        assert_eq!(std::fs::read_dir(&second).expect("listed").count(), 1);
        assert!(first.to_string_lossy().ends_with("-a-cpu-r-2-5-ghz"), "{}", first.display());
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 2);
    }

    #[test]
    fn another_version_and_another_file_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        for (text, said) in [
            ("{\"version\": 99}", "has version 99"),
            ("[]", "is not a saved run"),
            ("{\"version\": 1}", "is not a saved run"),
        ] {
            std::fs::write(&path, text).expect("written");
            let message = format!("{:#}", Record::read(folder.path()).expect_err(said));
            assert!(message.contains(said), "{message}");
        }
    }

    #[test]
    fn only_runs_of_one_machine_are_compared() {
        let old = record("a", 10.0);
        let changes = compare(&old, &record("a", 5.0)).expect("comparable");
        assert_eq!((changes[0].before, changes[0].after), (10.0, 5.0));
        let error = compare(&old, &record("b", 5.0)).expect_err("different");
        assert!(error.to_string().contains("different machines"), "{error}");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (unix_s, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_763_683_199, "2025-11-20"),
            (1_763_683_200, "2025-11-21"),
        ] {
            assert_eq!(date(unix_s), day);
        }
    }
}
