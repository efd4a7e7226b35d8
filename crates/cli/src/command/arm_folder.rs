//! What the runs in a folder of `compare` are made of.

use std::fs::{self, read_dir};
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use updraft_data::read_regular;
use updraft_run::Plan;

use super::cannot;
use super::plan_difference::plan_difference;
use crate::whole_file::write_whole;

/// The file that records it, in the folder of an arm and a seed.
const FILE: &str = "compare.json";

/// The version of the file.
const VERSION: u32 = 3;

/// The largest such file that is read.
const MOST_BYTES: u64 = 16 << 20;

/// The digits of a digest in a message.
const DIGITS: usize = 12;

/// The plan of an arm and its data: runs of others are not compared with those of this one.
#[derive(Debug, Clone)]
pub(super) struct MadeOf {
    plan: Table,
    /// The digest of the data; `None` if it was not read.
    data: Option<String>,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Recorded {
    version: u32,
    /// In TOML, without the seed.
    plan: String,
    /// The digest of the data.
    data: String,
}

impl MadeOf {
    pub(super) fn of(plan: &Plan, data: Option<String>) -> Self {
        Self { plan: compared(plan.table().clone()), data }
    }

    /// Whether a folder has recorded that its runs are made of this; `false` for a folder without
    /// results and without a record.
    ///
    /// # Errors
    /// An error for runs of another plan or of other data, with the key, for results without a
    /// record, and for a record that is damaged or of another version.
    pub(super) fn owns(&self, folder: &Path) -> Result<bool> {
        let path = folder.join(FILE);
        let text = match read_regular(&path, MOST_BYTES) {
            Ok(text) => text,
            Err(cause) if is_absent(&cause) => {
                refuse_unrecorded(folder)?;
                return Ok(false);
            }
            Err(cause) => return Err(cannot("read", &path, cause)),
        };
        let damaged = |cause: String| {
            anyhow!(
                "`{}` is damaged: {cause}; restore it from a copy, or name another folder with \
                 --runs",
                path.display()
            )
        };
        let found: serde_json::Value =
            serde_json::from_slice(&text).map_err(|cause| damaged(cause.to_string()))?;
        // Other versions have other fields.
        if found["version"] != VERSION {
            bail!(
                "`{}` was written by another version of updraft; name another folder with --runs",
                path.display()
            );
        }
        let found: Recorded =
            serde_json::from_value(found).map_err(|cause| damaged(cause.to_string()))?;
        let plan: Table = toml::from_str(&found.plan)
            .map_err(|cause| damaged(format!("its plan: {}", cause.message())))?;
        let difference = plan_difference(&plan, &self.plan).or_else(|| {
            let own = self.data.as_ref().filter(|own| **own != found.data)?;
            let start = |digest: &str| digest.chars().take(DIGITS).collect::<String>();
            Some(format!("digest of the data ({}, here {})", start(&found.data), start(own)))
        });
        match difference {
            None => Ok(true),
            Some(difference) => Err(other(folder, &difference)),
        }
    }

    /// Records it in a folder, or returns an error for runs of others.
    pub(super) fn own(&self, folder: &Path) -> Result<()> {
        if self.owns(folder)? {
            return Ok(());
        }
        let plan = toml::to_string(&self.plan).context("the plan of an arm")?;
        let data = self.data.clone().context("the data of an arm was not read")?;
        let recorded = Recorded { version: VERSION, plan, data };
        let text = serde_json::to_string(&recorded).context("the plan of an arm")?;
        fs::create_dir_all(folder).map_err(|cause| cannot("create", folder, cause))?;
        write_whole(&folder.join(FILE), &text)
    }
}

/// Returns an error for a folder without a record that has the result of a run: what it was trained
/// on is not known.
fn refuse_unrecorded(folder: &Path) -> Result<()> {
    let entries = match read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if is_absent(&cause) => return Ok(()),
        Err(cause) => return Err(cannot("read", folder, cause)),
    };
    for entry in entries {
        let path = entry.map_err(|cause| cannot("read", folder, cause))?.path();
        let summary = path.join("summary.json");
        match fs::metadata(&summary) {
            Ok(_) => bail!(
                "`{}` has the result of a run, and there is no `{FILE}` beside it with what the \
                 run was trained on; restore that file from a copy, or name another folder with \
                 --runs",
                path.display()
            ),
            // Not a run, or one without a result.
            Err(cause) if is_absent(&cause) => {}
            Err(cause) => return Err(cannot("read", &summary, cause)),
        }
    }
    Ok(())
}

/// Whether an error says that there is no file, or a file where a folder would be.
pub(super) fn is_absent(cause: &std::io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// A plan without what may differ among the runs of an arm: the seed, and the place of the data,
/// which its digest identifies.
fn compared(mut plan: Table) -> Table {
    plan.remove("seed");
    if let Some(data) = plan.get_mut("data").and_then(Value::as_table_mut) {
        data.remove("dir");
    }
    plan
}

fn other(folder: &Path, difference: &str) -> anyhow::Error {
    anyhow!(
        "`{}` has runs with another {difference}; name another folder with --runs, or undo the \
         change to continue with these",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use updraft_run::TASKS;

    use super::*;

    #[test]
    fn a_folder_is_of_one_plan_and_one_digest_at_any_seed_and_place_of_the_data() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let folder = dir.path().join("arm-1-seed-1");
        let made_of = |text: &str, data: &str| {
            let plan = Plan::read(TASKS, text, Path::new("c.toml"), &[]).expect("valid").plan;
            MadeOf::of(&plan, Some(data.to_owned()))
        };
        let own = made_of("seed = 1", "0123456789abcdef");
        assert!(!own.owns(&folder).expect("no folder"));
        own.own(&folder).expect("recorded");
        for same in [made_of("seed = 2", "0123456789abcdef"), MadeOf { data: None, ..own.clone() }]
        {
            assert!(same.owns(&folder).expect("its own"));
        }
        let said = |other: MadeOf| other.own(&folder).expect_err("another").to_string();
        let epochs = said(made_of("train.epochs = 30", "0123456789abcdef"));
        assert!(epochs.contains("has runs with another `train.epochs` ("), "{epochs}");
        assert!(epochs.contains(", here 30); name another folder"), "{epochs}");
        let data = said(made_of("", "fedcba9876543210"));
        let expected = "another digest of the data (0123456789ab, here fedcba987654)";
        assert!(data.contains(expected), "{data}");
    }

    fn plan(text: &str) -> Plan {
        Plan::read(TASKS, text, Path::new("c.toml"), &[]).expect("valid").plan
    }

    #[test]
    fn a_record_that_is_damaged_or_of_another_version_is_named() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let own = MadeOf::of(&plan(""), Some("0".to_owned()));
        let said = |text: &str| {
            fs::write(dir.path().join(FILE), text).expect("written");
            own.owns(dir.path()).expect_err("refused").to_string()
        };
        for text in ["", "{\"version\":3,\"plan\":\"", "{\"version\":3}"] {
            let said = said(text);
            assert!(said.contains("compare.json` is damaged: "), "{said}");
            assert!(said.ends_with("from a copy, or name another folder with --runs"), "{said}");
        }
        for text in ["{\"version\":4}", "{\"version\":2,\"plan\":\"\"}", "{}", "[]"] {
            let said = said(text);
            let words = "compare.json` was written by another version of updraft; name another";
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn results_without_a_record_are_refused() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let own = MadeOf::of(&plan(""), Some("0".to_owned()));
        let run = dir.path().join("run");
        fs::create_dir(&run).expect("created");
        fs::write(dir.path().join("notes.txt"), "a file").expect("written");
        fs::write(run.join("plan.toml"), plan("seed = 5").to_toml()).expect("written");
        assert!(!own.owns(dir.path()).expect("a run without a result"));
        fs::write(run.join("summary.json"), "{\"complete\":true}").expect("written");
        let said = own.own(dir.path()).expect_err("no record").to_string();
        assert!(said.contains("run` has the result of a run, and there is no `compare"), "{said}");
        assert!(said.ends_with("or name another folder with --runs"), "{said}");
    }

    #[test]
    fn a_record_that_cannot_be_read_is_not_an_absent_one() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let own = MadeOf::of(&plan(""), Some("0".to_owned()));
        fs::create_dir(dir.path().join(FILE)).expect("created");
        let said = own.owns(dir.path()).expect_err("unreadable").to_string();
        assert!(said.starts_with("cannot read `"), "{said}");
    }
}
