//! What this program is called, in the commands that it advises.

use std::path::Path;

/// The name under which the program was started: `updraft`, or what a runner gives in its place.
pub(crate) fn name() -> String {
    let first = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&first).file_stem().map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "updraft".to_owned())
}
