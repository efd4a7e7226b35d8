//! The manifest of a plan's volumes, checked against its keys before a volume is opened.

use std::collections::BTreeSet;
use std::path::Path;

use updraft_data::{Delimiter, VolumeManifest, VolumeRow};

use super::data_plan::{DataPlan, TargetKind};
use crate::bounded::check_no_pipe;
use crate::config::ConfigError;
use crate::error::RunError;

/// Opens the manifest at a path.
///
/// # Errors
/// [`RunError::Io`] for a pipe, [`RunError::Data`] for a file that is no manifest,
/// [`RunError::Config`] for a key that asks for a split, a target or a fraction of positions that it
/// does not have.
pub(super) fn open_manifest(plan: &DataPlan, path: &Path) -> Result<VolumeManifest, RunError> {
    check_no_pipe(path)?;
    let manifest = VolumeManifest::open(path, Delimiter::of(path))?;
    let rows = manifest.rows();
    let place = path.display();
    if has_splits(rows) {
        for (key, split) in ["data.train_split", "data.test_split"].into_iter().zip(&plan.splits) {
            if !rows.iter().any(|row| row.split.as_ref() == Some(split)) {
                let known: BTreeSet<&str> =
                    rows.iter().filter_map(|row| row.split.as_deref()).collect();
                let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                let expected = format!("in the column `split` of `{place}`: {}", known.join(", "));
                return refuse(key, format!("{split:?}"), expected);
            }
        }
    } else {
        let positions = manifest.positions();
        if positions < 2 {
            let expected = format!(
                "a fraction of at least 2 positions that share no voxels, and `{place}` has \
                 {positions}; or give it a column `position` or `split`"
            );
            return refuse("data.test_fraction", plan.test_fraction.to_string(), expected);
        }
    }
    let (kind, column, has_target): (_, _, fn(&VolumeRow) -> bool) = match plan.target {
        TargetKind::Labels => ("labels", "labels", |row| row.labels.is_some()),
        TargetKind::Image => ("image", "target", |row| !row.targets.is_empty()),
        TargetKind::Input => return Ok(manifest),
    };
    if let Some(row) = used_rows(plan, rows).find(|row| !has_target(row)) {
        let expected = format!(
            "what every line has; `{place}` line {} has nothing in a column `{column}`",
            row.line
        );
        return refuse("data.target", format!("{kind:?}"), expected);
    }
    Ok(manifest)
}

/// The rows of the plan's splits; all of them where none has a split.
pub(super) fn used_rows<'a>(
    plan: &'a DataPlan,
    rows: &'a [VolumeRow],
) -> impl Iterator<Item = &'a VolumeRow> {
    let all = !has_splits(rows);
    rows.iter().filter(move |row| {
        all || row.split.as_ref().is_some_and(|split| plan.splits.contains(split))
    })
}

/// Whether a row names its split.
pub(super) fn has_splits(rows: &[VolumeRow]) -> bool {
    rows.iter().any(|row| row.split.is_some())
}

fn refuse<T>(key: &str, value: String, expected: String) -> Result<T, RunError> {
    let (place, key) = (String::new(), key.to_owned());
    Err(RunError::Config(ConfigError::Value { place, key, value, expected }))
}
