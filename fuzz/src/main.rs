//! Runs the fuzz target that the environment variable `UPDRAFT_FUZZ` names. `list` prints all
//! targets with their flags for libFuzzer; `seeds DIR` writes the seed inputs of all targets.
#![no_main]

mod scratch;
mod target;

use std::fs;
use std::path::Path;
use std::process::exit;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use target::{TARGETS, Target};

static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

fuzz_target!(init: begin(), |bytes: &[u8]| {
    (CHOSEN.get().expect("chosen at the start").run)(bytes);
});

fn begin() {
    let wanted = std::env::var("UPDRAFT_FUZZ").unwrap_or_default();
    if wanted == "list" {
        for target in TARGETS {
            println!("{} {}", target.name, target.flags);
        }
        exit(0);
    }
    if let Some(folder) = wanted.strip_prefix("seeds ") {
        for target in TARGETS {
            write_seeds(&Path::new(folder).join(target.name), target);
        }
        exit(0);
    }
    let Some(target) = TARGETS.iter().find(|target| target.name == wanted) else {
        eprintln!("UPDRAFT_FUZZ is `{wanted}`; it must be a target, `list`, or `seeds DIR`");
        exit(2);
    };
    let _ = CHOSEN.set(target);
}

fn write_seeds(folder: &Path, target: &Target) {
    fs::create_dir_all(folder).expect("a folder for seeds");
    for (number, bytes) in (target.seeds)().iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:02}")), bytes).expect("a seed");
    }
}
