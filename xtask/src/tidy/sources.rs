//! Source files: first line, length, name, `unsafe`, examples that are never compiled.

use crate::tidy::Fault;
use crate::tidy::workspace::Workspace;

/// Lines before the tests that need no reason.
const LONG: usize = 400;

/// The most lines before the tests, with a reason.
const TOO_LONG: usize = 800;

/// The comment with the reason for a file of more than [`LONG`] lines.
const EXCUSE: &str = "// tidy: long because ";

/// Names that do not describe a file's content.
const VAGUE: [&str; 7] = ["base", "common", "helper", "helpers", "misc", "util", "utils"];

/// Folders and files that do not depend on burn.
const WITHOUT_BURN: [&str; 8] = [
    "crates/conv/src/kernels/",
    "crates/kan/src/basis/",
    "crates/kan/src/grid.rs",
    "crates/kan/src/kernels/",
    "crates/kan/src/regrid/",
    "crates/kan/src/roofline/",
    "crates/quant/src/kernels/",
    "crates/simd/",
];

/// Files that may contain `unsafe`: kernels on slices with their building blocks, the allocators, whose
/// trait is unsafe, and their call of the C library, devices of CubeCL, whose trait has an unsafe
/// method, and burn's replay of recorded operations.
const KERNELS: [&str; 9] = [
    "/src/kernels/",
    "crates/simd/",
    "crates/allocator/src/no_pages.rs",
    "crates/allocator/src/pages.rs",
    "crates/allocator/src/reuse.rs",
    "crates/cli/src/allocator.rs",
    "crates/testing/src/cube_recorder.rs",
    "crates/trainer/src/captured/recording.rs",
    "xtask/cuda/src/recorder.rs",
];

pub(super) fn faults(workspace: &Workspace) -> Vec<Fault> {
    let mut faults = Vec::new();
    for path in &workspace.paths {
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = name.strip_suffix(".rs").unwrap_or(name);
        if VAGUE.contains(&stem) {
            faults
                .push(Fault::new(path, format!("`{stem}` says nothing; name it by what it holds")));
        }
    }
    for (path, text) in workspace.with_ending(".rs") {
        faults.extend(source(path, text));
    }
    faults
}

fn source(path: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let first = text.lines().next().unwrap_or_default();
    // A crate's page is its README.
    if !first.starts_with("//! ") && first != "#![doc = include_str!(\"../README.md\")]" {
        faults.push(Fault::new(
            format!("{path}:1"),
            "the first line must be `//!` and one sentence on what the file is for",
        ));
    }
    let before_tests = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
    let is_excused = text.lines().any(|line| line.starts_with(EXCUSE));
    if before_tests > TOO_LONG || (before_tests > LONG && !is_excused) {
        faults.push(Fault::new(
            path,
            format!(
                "{before_tests} lines before the tests; split the file, or up to {TOO_LONG} \
                 excuse it with a line `{EXCUSE}…`"
            ),
        ));
    }
    let is_kernel = KERNELS.iter().any(|folder| path.contains(folder));
    let is_without_burn = WITHOUT_BURN.iter().any(|folder| path.starts_with(folder));
    let block = concat!("uns", "afe {");
    let never_compiled = concat!("``", "`ignore");
    for (number, line) in (1..).zip(text.lines()) {
        let place = || format!("{path}:{number}");
        let code = line.split("//").next().unwrap_or_default();
        let keyword = concat!("uns", "afe ");
        if !is_kernel && (code.contains(block) || code.trim_start().starts_with(keyword)) {
            faults.push(Fault::new(place(), "`unsafe` belongs in a kernel file"));
        }
        if is_without_burn && code.contains("burn::") {
            faults.push(Fault::new(
                place(),
                "kernels take slices; burn belongs in `ops` and `layer`",
            ));
        }
        if line.contains(never_compiled) {
            let message = "an example that is never compiled; use `no_run` or `compile_fail`";
            faults.push(Fault::new(place(), message));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_of_the_program_may_hold_unsafe_and_its_neighbors_may_not() {
        let text = concat!("//! Here.\nfn f() { uns", "afe { g() } }\n");
        assert_eq!(source("crates/cli/src/allocator.rs", text).len(), 0);
        assert_eq!(source("crates/cli/src/lib.rs", text).len(), 1);
    }
}
