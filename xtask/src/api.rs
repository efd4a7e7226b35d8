//! `api`: the public API of every library crate, compared with the list that is committed.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use crate::cargo::Cargo;
use crate::{complain, print, refuse, root, target};

/// The file in a crate's folder: one public item a line.
const LIST: &str = "public-api.txt";

/// Every crate of the workspace, as rustdoc's JSON.
///
/// The whole workspace at once, so that the features are those of every other build.
const DOCUMENT: Cargo<'_> = Cargo::new("doc --workspace --no-deps --lib --quiet");

/// The output of rustdoc that `public-api` reads is unstable, so rustdoc alone, and not the
/// compiler, runs with the unstable options of the pinned version.
const WRAPPER: &str = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";

/// What to do with a list that differs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Report it.
    Refuse,
    /// Write the new list.
    Write,
}

pub(crate) fn run(arguments: &[String], dry_run: bool) -> ExitCode {
    let arguments =
        arguments.iter().map(String::as_str).filter(|&argument| argument != "--dry-run");
    let result = match (arguments.collect::<Vec<_>>().as_slice(), dry_run) {
        ([] | ["--write"] | ["--against", _], true) => {
            print("> list the public items of every library crate and compare them");
            Ok(())
        }
        ([], false) => check(Difference::Refuse),
        (["--write"], false) => check(Difference::Write),
        (["--against", commit], false) => against(commit),
        _ => return refuse("`cargo xtask api` takes --write, or --against and a commit"),
    };
    result.err().unwrap_or(ExitCode::SUCCESS)
}

/// Compares the lists with those of a commit; an error if items are gone or changed, which breaks
/// the crate's users.
fn against(commit: &str) -> Result<(), ExitCode> {
    if !git(&["cat-file", "-e", &format!("{commit}^{{commit}}")])?.status.success() {
        return Err(refuse(&format!("`{commit}` is not a commit of this repository")));
    }
    let libraries = libraries().map_err(|error| failed("crates/", &error))?;
    let mut is_compatible = true;
    for (folder, _) in libraries {
        let path = format!("crates/{folder}/{LIST}");
        let new = fs::read_to_string(root().join(&path)).map_err(|error| failed(&path, &error))?;
        // A crate that the commit does not have is new.
        let old = git(&["show", &format!("{commit}:{path}")])?;
        let lines = compare(&String::from_utf8_lossy(&old.stdout), &new);
        if !lines.is_empty() {
            print(&format!("updraft crate `{folder}` since {commit}:"));
            lines.iter().for_each(|line| print(line));
        }
        is_compatible &= !lines.iter().any(|line| line.starts_with('-'));
    }
    if is_compatible {
        return Ok(());
    }
    complain("error: items marked `-` were removed or changed: the next version is a breaking one");
    Err(ExitCode::FAILURE)
}

fn git(arguments: &[&str]) -> Result<Output, ExitCode> {
    let output = Command::new("git").args(arguments).current_dir(root()).output();
    output.map_err(|error| failed("git", &error))
}

fn failed(what: &str, error: &dyn Display) -> ExitCode {
    complain(&format!("error: {what}: {error}"));
    ExitCode::FAILURE
}

/// Compares every crate's public items with its list.
pub(crate) fn check(difference: Difference) -> Result<(), ExitCode> {
    let folder = target().join("api");
    let wrapper = write_wrapper(&folder).map_err(|error| failed("rustdoc's wrapper", &error))?;
    let environment = [
        ("RUSTDOC", wrapper.to_str().unwrap_or_default()),
        ("RUSTDOCFLAGS", "-Z unstable-options --output-format json"),
    ];
    Cargo { environment: &environment, ..DOCUMENT }.run()?;
    let libraries = libraries().map_err(|error| failed("crates/", &error))?;
    let mut is_same = true;
    for (folder, json) in libraries {
        let items = public_items(&json).map_err(|error| failed(&folder, &error))?;
        let path = root().join("crates").join(&folder).join(LIST);
        let listed = fs::read_to_string(&path).unwrap_or_default();
        if items == listed {
            continue;
        }
        if difference == Difference::Write {
            fs::write(&path, &items).map_err(|error| failed(&folder, &error))?;
            print(&format!("wrote crates/{folder}/{LIST}"));
        } else {
            is_same = false;
            complain(&format!("crates/{folder}/{LIST} differs from the crate:"));
            compare(&listed, &items).iter().for_each(|line| complain(line));
        }
    }
    if is_same {
        return Ok(());
    }
    complain("error: public items changed; if this is intended, run `cargo xtask api --write`");
    Err(ExitCode::FAILURE)
}

fn write_wrapper(folder: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join("rustdoc");
    fs::write(&path, WRAPPER)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(path)
}

/// The folders of published crates, each with the file that rustdoc wrote of it.
fn libraries() -> io::Result<Vec<(String, PathBuf)>> {
    let mut libraries = Vec::new();
    for entry in fs::read_dir(root().join("crates"))? {
        let folder = entry?.path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        if let Some(name) = name
            && !manifest.lines().any(|line| line == "publish = false")
        {
            let json = format!("doc/{}.json", name.trim_matches('"').replace('-', "_"));
            let folder = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            libraries.push((folder, target().join(json)));
        }
    }
    libraries.sort();
    Ok(libraries)
}

/// One public item per line, without the automatic traits that every type has.
fn public_items(json: &Path) -> public_api::Result<String> {
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    Ok(api.to_string())
}

/// The lines that are in one of two lists alone, as `diff` marks them.
fn compare(listed: &str, found: &str) -> Vec<String> {
    let [listed, found] = [listed, found].map(|list| list.lines().collect::<BTreeSet<_>>());
    let gone = listed.difference(&found).map(|line| format!("- {line}"));
    let new = found.difference(&listed).map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_item_is_gone_and_new() {
        let lines = compare("pub fn a()\npub fn b()\n", "pub fn a()\npub fn b(u8)\n");
        assert_eq!(lines, ["- pub fn b()", "+ pub fn b(u8)"]);
    }

    #[test]
    fn every_published_crate_has_a_list() {
        let libraries = libraries().unwrap();
        assert!(libraries.iter().any(|(folder, _)| folder == "conv"));
        for (folder, _) in libraries {
            assert!(root().join("crates").join(&folder).join(LIST).is_file(), "{folder}");
        }
    }
}
