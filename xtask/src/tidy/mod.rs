//! The rules of the repository, checked on its files.

mod configs;
mod dependencies;
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
use workspace::Workspace;

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
    check().err().unwrap_or(ExitCode::SUCCESS)
}

/// Prints every fault; an error if there is one.
pub(crate) fn check() -> Result<(), ExitCode> {
    let faults = Workspace::read(root())
        .map(|workspace| faults(&workspace))
        .unwrap_or_else(|fault| vec![fault]);
    for fault in &faults {
        complain(&fault.to_string());
    }
    if faults.is_empty() { Ok(()) } else { Err(ExitCode::FAILURE) }
}

fn faults(workspace: &Workspace) -> Vec<Fault> {
    let mut faults = dependencies::faults(workspace);
    faults.extend(manifests::faults(workspace));
    faults.extend(sources::faults(workspace));
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
