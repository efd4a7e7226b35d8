//! The rules of the repository, checked on its files.

mod configs;
mod dependencies;
mod device_record;
mod documents;
mod literals;
mod manifests;
#[cfg(test)]
mod planted;
mod sources;
mod words;
mod workspace;

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

use crate::{complain, print, root};
pub(crate) use device_record::RECORD as DEVICE_RECORD;
use workspace::Workspace;

/// What to do with the record of tests on devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceRecord {
    /// Compare it with the sources.
    Compare,
    /// Nothing: the tests follow, and write it.
    Ignore,
}

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The file, from the root of the workspace, with the line where there is one.
    place: String,
    /// The violation and the remedy.
    message: String,
}

impl Fault {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

pub(crate) fn run(dry_run: bool) -> ExitCode {
    if dry_run {
        print("> read every file of the workspace and report what breaks a rule");
        return ExitCode::SUCCESS;
    }
    check(DeviceRecord::Compare).err().unwrap_or(ExitCode::SUCCESS)
}

/// Prints every fault; an error if there is one.
pub(crate) fn check(record: DeviceRecord) -> Result<(), ExitCode> {
    let mut faults = Workspace::read(root())
        .map(|workspace| faults(&workspace))
        .unwrap_or_else(|fault| vec![fault]);
    if record == DeviceRecord::Ignore {
        faults.retain(|fault| fault.place != DEVICE_RECORD);
    }
    for fault in &faults {
        complain(&fault.to_string());
    }
    if faults.is_empty() { Ok(()) } else { Err(ExitCode::FAILURE) }
}

/// The digest of the code that only builds for GPUs compile.
///
/// # Errors
/// If the workspace cannot be read.
pub(crate) fn device_digest() -> Result<Option<String>, String> {
    let workspace = Workspace::read(root()).map_err(|fault| fault.to_string())?;
    Ok(device_record::digest(&workspace))
}

fn faults(workspace: &Workspace) -> Vec<Fault> {
    let mut faults = dependencies::faults(workspace);
    faults.extend(manifests::faults(workspace));
    faults.extend(sources::faults(workspace));
    faults.extend(device_record::faults(workspace));
    faults.extend(documents::faults(workspace));
    faults.extend(configs::faults(workspace));
    faults.extend(words::faults(workspace));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let faults = faults(&Workspace::read(root()).unwrap());
        let faults: Vec<String> = faults.iter().map(Fault::to_string).collect();
        assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    }
}
