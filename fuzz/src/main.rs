//! Runs the fuzz target that the environment variable `UPDRAFT_FUZZ` names, after it wrote the
//! target's seed inputs to the folder `UPDRAFT_FUZZ_SEEDS`; `list` prints all targets.
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
    let Some(target) = TARGETS.iter().find(|target| target.name == wanted) else {
        eprintln!("UPDRAFT_FUZZ is `{wanted}`; it must be a target or `list`");
        exit(2);
    };
    // Always: what a target prepares once is no part of an execution.
    let seeds = (target.seeds)();
    if let Some(folder) = std::env::var_os("UPDRAFT_FUZZ_SEEDS") {
        write_seeds(Path::new(&folder), &seeds);
    }
    let _ = CHOSEN.set(target);
}

fn write_seeds(folder: &Path, seeds: &[Vec<u8>]) {
    fs::create_dir_all(folder).expect("a folder for seeds");
    for (number, bytes) in seeds.iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:02}")), bytes).expect("a seed");
    }
}
