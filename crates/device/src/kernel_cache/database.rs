//! Reading and writing the cache through CubeCL's own code, which several processes may use at once.

use std::path::{Path, PathBuf};

use cubecl_environment::bundle::{
    BundleFormat, EnvironmentInfo, ExportOptions, SqliteBundle, export, import,
};
use cubecl_environment::environment;
use cubecl_environment::persistence::{Access, Database};

use super::contents::Entries;

/// The name of a copy, which CubeCL stores in it.
const NAME: &str = "updraft";

/// How CubeCL keeps how a cache was made: not copied.
const RECORDS: &str = "records";

/// The file that this process uses.
pub(super) fn active() -> PathBuf {
    environment::path()
}

/// Uses another file from now on; choices in memory are read again from it.
pub(super) fn use_file(file: &Path) {
    environment::load(file);
}

/// The parts of a file.
pub(super) fn entries(file: &Path) -> Result<Vec<Entries>, String> {
    let database = Database::open_at(file, Access::ReadOnly)?;
    let parts = database.summary().into_iter();
    Ok(parts
        .map(|part| Entries { namespace: part.namespace, entries: part.entries, bytes: part.bytes })
        .collect())
}

/// Copies the entries of files into a new one or one that was copied before, with a label: those
/// below `only`, or all. The first file that has an entry decides it. The copy appears when it is
/// complete, and the files may be in use.
pub(super) fn copy(
    from: &[&Path],
    to: &Path,
    label: &str,
    only: Option<&str>,
) -> Result<(), String> {
    // Opened for writing before the copy opens it for reading: the first decides for the process.
    let own = environment::path();
    let active = from.iter().any(|file| **file == *own).then(Database::open_active);
    let namespaces = match only {
        Some(only) => vec![only.to_owned()],
        None => kept(from)?,
    };
    let info = EnvironmentInfo { label: label.to_owned(), ..EnvironmentInfo::default() };
    let options = ExportOptions {
        name: NAME.to_owned(),
        environments: vec![info],
        namespaces,
        excluded_namespaces: Vec::new(),
        format: BundleFormat::Sqlite,
    };
    let copied = export(from, to, &options).map_err(|error| error.to_string());
    drop(active);
    copied.map(drop)
}

/// The label of a copy.
pub(super) fn label(file: &Path) -> Result<String, String> {
    let bundle = SqliteBundle::open(file).map_err(|error| error.to_string())?;
    let labelled = bundle.manifest().environments.first();
    labelled.map(|info| info.label.clone()).ok_or_else(|| "it has no label".to_owned())
}

/// Adds the entries of a copy to the file that this process uses; entries there stay. Returns how
/// many were added.
pub(super) fn add_to_active(copy: &Path) -> Result<u64, String> {
    let bundle = SqliteBundle::open(copy).map_err(|error| error.to_string())?;
    let report = import(&bundle);
    match report.failed {
        0 => Ok(report.imported as u64),
        failed => Err(format!("{failed} entries could not be written")),
    }
}

/// The first parts of the names in files, but records.
fn kept(from: &[&Path]) -> Result<Vec<String>, String> {
    let mut kept = vec![super::contents::TUNED.to_owned()];
    for file in from.iter().filter(|file| file.is_file()) {
        for Entries { namespace, .. } in entries(file)? {
            let first = namespace.split('/').next().unwrap_or_default().to_owned();
            if first != RECORDS && !first.is_empty() && !kept.contains(&first) {
                kept.push(first);
            }
        }
    }
    Ok(kept)
}
