//! The laws of the house, read off its files.

mod arrows;
mod configs;
mod documents;
mod house;
mod manifests;
#[cfg(test)]
mod planted;
mod sources;

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

use crate::{complain, print, root};
use house::House;

/// A law broken at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The file, from the root of the workspace, with the line where there is one.
    place: String,
    /// What is wrong and what to do.
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
        print("> read every file of the workspace and report what breaks a law");
        return ExitCode::SUCCESS;
    }
    check().err().unwrap_or(ExitCode::SUCCESS)
}

/// Prints every fault; the error is for a house that is not tidy.
pub(crate) fn check() -> Result<(), ExitCode> {
    let faults =
        House::read(root()).map(|house| faults(&house)).unwrap_or_else(|fault| vec![fault]);
    for fault in &faults {
        complain(&fault.to_string());
    }
    if faults.is_empty() { Ok(()) } else { Err(ExitCode::FAILURE) }
}

fn faults(house: &House) -> Vec<Fault> {
    let mut faults = arrows::faults(house);
    faults.extend(manifests::faults(house));
    faults.extend(sources::faults(house));
    faults.extend(documents::faults(house));
    faults.extend(configs::faults(house));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        let faults = faults(&House::read(root()).unwrap());
        let told: Vec<String> = faults.iter().map(Fault::to_string).collect();
        assert!(told.is_empty(), "\n{}", told.join("\n"));
    }
}
