//! Documents: every command in them exists.
//!
//! A block of shell opens with `sh run` and is executed here, or with `sh skip: reason`; of both,
//! each `cargo xtask` line is parsed with `--dry-run`, which also looks for its data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::{cargo, output_text, root};

/// A block of shell in a document.
struct Block {
    place: String,
    info: String,
    lines: Vec<String>,
}

impl Block {
    /// The commands, without comments; a line that ends in `\` continues on the next.
    fn commands(&self) -> Vec<String> {
        let joined = self.lines.join("\n").replace("\\\n", " ");
        let lines = joined.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    }
}

/// Builds the program and returns the folder that holds it.
fn programs() -> PathBuf {
    let output = cargo("build --workspace --bin updraft --bin updraft-bench");
    assert!(output.status.success(), "{}", output_text(&output));
    Path::new(env!("CARGO_BIN_EXE_xtask")).parent().unwrap().to_owned()
}

#[test]
fn every_command_parses() {
    let programs = programs();
    let mut count = 0;
    for block in blocks() {
        for command in block.commands() {
            let Some(arguments) = command.strip_prefix("cargo xtask ") else { continue };
            // As a shell reads them: quotes hold no spaces here.
            let words = arguments.split_whitespace();
            let mut arguments: Vec<_> = words.map(|word| word.trim_matches('\'')).collect();
            let name = match arguments[0] {
                "api" | "check" | "cuda-offline" | "deny" | "fuzz" | "gpu-report" | "package"
                | "results" | "test" | "test-arm" | "test-device" | "test-network" | "tidy"
                | "--help" => "xtask",
                "bench" => {
                    arguments = for_the_runner(&arguments[1..]);
                    "updraft-bench"
                }
                _ => "updraft",
            };
            let says_how = ["--help", "--dry-run"];
            if !arguments.iter().any(|argument| says_how.contains(argument)) {
                arguments.push("--dry-run");
            }
            let mut process = Command::new(programs.join(name));
            let output = process.args(&arguments).current_dir(root()).output().unwrap();
            let place = &block.place;
            // Data and runs that a document names may be missing.
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let lacks_data = [
                "looked for `",
                "this config needs data",
                "is not a run folder",
                "cannot read the config `runs/",
            ];
            let lacks_data = lacks_data.iter().any(|words| errors.contains(words));
            let is_good = output.status.success() || lacks_data;
            assert!(is_good, "{place}: {command}\n{}", output_text(&output));
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} commands were found");
}

/// The arguments of `cargo xtask bench` that it hands on.
fn for_the_runner<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let mut rest = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--compare" | "--with" => drop(arguments.next()),
            other => rest.push(other),
        }
    }
    rest
}

#[test]
fn every_block_of_shell_says_whether_it_is_run() {
    for Block { place, info, .. } in blocks() {
        let is_known =
            info == "sh run" || info.strip_prefix("sh skip: ").is_some_and(|r| r.len() > 3);
        assert!(is_known, "{place}: ```{info}: write `sh run` or `sh skip: reason`");
    }
}

#[test]
fn every_block_marked_run_runs() {
    let programs = programs();
    let mut count = 0;
    for block in blocks().into_iter().filter(|block| block.info == "sh run") {
        for command in block.commands() {
            // The program is built: no need to ask cargo again for every line.
            let arguments = command.strip_prefix("cargo xtask ").unwrap_or_else(|| {
                panic!("{}: `{command}`: only `cargo xtask` can be run here", block.place)
            });
            let output = Command::new(programs.join("updraft"))
                .args(arguments.split_whitespace())
                .current_dir(root())
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{}: {command}\n{}",
                block.place,
                output_text(&output)
            );
            count += 1;
        }
    }
    assert!(count > 0, "no block is marked `sh run`");
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for path in documents(root()) {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let mut open: Option<Block> = None;
        for (number, line) in (1..).zip(text.lines()) {
            match (&mut open, line.strip_prefix("```")) {
                (Some(block), None) => block.lines.push(line.to_owned()),
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(info)) => {
                    let place = format!("{name}:{number}");
                    open = Some(Block { place, info: info.to_owned(), lines: Vec::new() });
                }
                (None, None) => {}
            }
        }
    }
    let shells = ["sh", "bash", "shell", "console"];
    blocks.retain(|block| shells.iter().any(|shell| block.info.split(' ').next() == Some(*shell)));
    blocks
}

/// Every document of the workspace, without what builds and runs make.
fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_made = ["target", "runs", "data", ".git"].contains(&name.as_str())
            && path.parent() == Some(root());
        if path.is_dir() && !is_made {
            found.extend(documents(&path));
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found.sort();
    found
}
