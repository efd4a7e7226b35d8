//! The workspace that these tests run in.

use std::path::Path;
use std::process::{Command, Output};

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Runs cargo here with the arguments, separated by single spaces.
pub(crate) fn cargo(arguments: &str) -> Output {
    Command::new(env!("CARGO")).args(arguments.split(' ')).current_dir(root()).output().unwrap()
}

/// The output of a process, for the message of a failed test.
pub(crate) fn output_text(output: &Output) -> String {
    let text = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}
