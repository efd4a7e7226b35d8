//! Ctrl-C: the first asks a run to stop and save, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// The exit code of a process that a signal ended: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// Whether somebody wants the command to stop at the next good moment.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Installs the handler of SIGINT and SIGTERM; without it, signals end the process at once.
pub(crate) fn install() {
    let installed = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    });
    if let Err(error) = installed {
        tracing::warn!(%error, "signals end the process without saving");
    }
}
