//! The run that this process trains, for errors that end it.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use updraft_trainer::list_checkpoints;

use crate::program::{name, quoted};

static RUN: RwLock<Option<PathBuf>> = RwLock::new(None);

/// Remembers the folder of the run that training continues in; `None` when training has returned.
pub(crate) fn set(folder: Option<&Path>) {
    *RUN.write().unwrap_or_else(PoisonError::into_inner) = folder.map(Path::to_owned);
}

/// How to continue the run, if one is trained.
pub(crate) fn how_to_continue() -> Option<String> {
    let run = RUN.read().unwrap_or_else(PoisonError::into_inner).clone();
    run.map(|run| how_to_continue_in(&run))
}

fn how_to_continue_in(run: &Path) -> String {
    let has_checkpoint =
        list_checkpoints(&run.join("checkpoints")).is_ok_and(|all| !all.is_empty());
    let (program, run) = (name(), quoted(&run.to_string_lossy()));
    match has_checkpoint {
        true => format!("`{program} train --resume {run}` continues from the newest checkpoint"),
        false => format!("the run `{run}` has no checkpoint yet: start it again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_a_checkpoint_is_resumed_and_one_without_is_started_again() {
        let run = tempfile::tempdir().expect("a folder");
        let text = how_to_continue_in(run.path());
        assert!(text.ends_with("has no checkpoint yet: start it again"), "{text}");
        let checkpoint = run.path().join("checkpoints/step-00000012");
        std::fs::create_dir_all(&checkpoint).expect("created");
        std::fs::write(checkpoint.join("manifest.json"), "{}").expect("written");
        let text = how_to_continue_in(run.path());
        let command = format!("train --resume {}`", quoted(&run.path().to_string_lossy()));
        assert!(text.contains(&command), "{text}");
    }
}
