//! What the runs in a folder of `compare` are made of.

use std::fs::{self, read_dir};
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
const VERSION: u32 = 2;

/// The largest such file, and the largest plan, that is read.
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
    /// runs and without a record.
    ///
    /// # Errors
    /// An error for runs of another plan or of other data, with the key, and for a damaged record.
    pub(super) fn owns(&self, folder: &Path) -> Result<bool> {
        let path = folder.join(FILE);
        if !path.exists() {
            self.refuse_other_runs(folder)?;
            return Ok(false);
        }
        let text = read_regular(&path, MOST_BYTES)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        let damaged = |cause: String| {
            anyhow!(
                "`{}` is damaged: {cause}; remove it: the runs beside it are kept and used if they \
                 have the plan of the arm",
                path.display()
            )
        };
        let found: Recorded =
            serde_json::from_slice(&text).map_err(|cause| damaged(cause.to_string()))?;
        if found.version != VERSION {
            let version = found.version;
            return Err(damaged(format!("its version is {version}; it must be {VERSION}")));
        }
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

    /// Returns an error for a run with another plan in a folder whose record is lost.
    fn refuse_other_runs(&self, folder: &Path) -> Result<()> {
        let Ok(entries) = read_dir(folder) else { return Ok(()) };
        for entry in entries.flatten() {
            let path = entry.path().join("plan.toml");
            // A run that has no plan is not complete and not used.
            let Ok(text) = read_regular(&path, MOST_BYTES) else { continue };
            let plan = str::from_utf8(&text).ok().and_then(|text| toml::from_str(text).ok());
            let Some(plan) = plan else { bail!("`{}` is damaged; restore it", path.display()) };
            if let Some(difference) = plan_difference(&compared(plan), &self.plan) {
                return Err(other(folder, &difference));
            }
        }
        Ok(())
    }
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

    #[test]
    fn a_damaged_record_is_named_and_runs_of_a_lost_one_are_compared_by_their_plans() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan =
            |text: &str| Plan::read(TASKS, text, Path::new("c.toml"), &[]).expect("valid").plan;
        let own = MadeOf::of(&plan(""), Some("0".to_owned()));
        for text in
            ["", "{\"version\":2,\"plan\":\"", "{\"version\":3,\"plan\":\"\",\"data\":\"\"}"]
        {
            fs::write(dir.path().join(FILE), text).expect("written");
            let said = own.owns(dir.path()).expect_err("damaged").to_string();
            assert!(said.contains("compare.json` is damaged: "), "{said}");
            assert!(said.contains("; remove it: the runs beside it are kept"), "{said}");
        }
        fs::remove_file(dir.path().join(FILE)).expect("removed");
        let run = dir.path().join("run");
        fs::create_dir(&run).expect("created");
        fs::write(run.join("plan.toml"), plan("seed = 5").to_toml()).expect("written");
        assert!(!own.owns(dir.path()).expect("the same plan"));
        fs::write(run.join("plan.toml"), plan("train.epochs = 30").to_toml()).expect("written");
        let said = own.own(dir.path()).expect_err("another").to_string();
        assert!(said.contains("another `train.epochs` (30, here "), "{said}");
    }
}
