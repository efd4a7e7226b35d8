//! `test`: every test of the workspace.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::cargo::Cargo;
use crate::{arm, gpu, is_here, libraries, print, updraft};

/// The program first, so that nothing is compiled twice after `train`.
const STEPS: [Cargo<'_>; 2] = [updraft::BUILD, Cargo::new("test --workspace")];

/// The library that reads the headers of MPI at build time.
pub(crate) const LIBCLANG: &str = "libclang";

/// Tests that run only if the programs that they need are installed.
const OPTIONAL: [(&str, &[&str], Cargo<'_>); 2] = [
    // With the features of the whole workspace, so that nothing else is compiled again.
    (
        "JPEG decoding by libjpeg-turbo",
        if cfg!(target_arch = "x86_64") { &["cmake", "nasm"] } else { &["cmake"] },
        Cargo::new("test --workspace --features updraft-data/turbojpeg --test turbojpeg"),
    ),
    (
        "ranks over MPI",
        &["mpirun", "mpicc", LIBCLANG],
        Cargo::new("test --workspace --features updraft/mpi,updraft-trainer/mpi --test mpi"),
    ),
];

pub(crate) fn run(dry_run: bool) -> ExitCode {
    let mut steps = STEPS.to_vec();
    for (name, needs, step) in OPTIONAL {
        let missing: Vec<_> = needs.iter().copied().filter(|need| !is_installed(need)).collect();
        if missing.is_empty() {
            steps.push(step);
        } else {
            print(&format!("not tested: {name}, which needs {}", missing.join(" and ")));
        }
    }
    for step in steps {
        print(&format!("> {}", step.typed()));
        if dry_run {
            continue;
        }
        let started = Instant::now();
        if let Err(code) = step.run() {
            return code;
        }
        print(&format!("  {:.1} s", started.elapsed().as_secs_f64()));
    }
    if let Err(code) = gpu::quick(dry_run) {
        return code;
    }
    match arm::missing() {
        Some(missing) => {
            print(&format!("not tested: kernels on aarch64, which need {missing}"));
            ExitCode::SUCCESS
        }
        None => arm::run(dry_run),
    }
}

pub(crate) fn is_installed(need: &str) -> bool {
    if need == LIBCLANG { has_libclang() } else { is_here(need) }
}

/// Whether `libclang.so` is in one of the folders that the crate `clang-sys` searches on Linux and
/// macOS.
fn has_libclang() -> bool {
    if let Some(path) = std::env::var_os("LIBCLANG_PATH") {
        return is_libclang(Path::new(&path)) || holds_libclang(Path::new(&path));
    }
    let configured = Command::new("llvm-config").arg("--libdir").output();
    let configured = configured.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let mut folders = libraries::folders();
    folders.push("/opt/homebrew/opt/llvm/lib".into());
    folders.extend(configured.map(|folder| PathBuf::from(folder.trim())));
    folders.iter().any(|folder| holds_libclang(folder))
}

fn holds_libclang(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| is_libclang(&path))
}

/// `libclang.so`, `libclang-14.so.1` and `libclang.dylib`, but not `libclang-cpp.so.14`.
fn is_libclang(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(rest) = name.strip_prefix("libclang") else { return false };
    let rest = rest.trim_start_matches(|c: char| c == '-' || c == '.' || c.is_ascii_digit());
    rest.starts_with("so") || rest.starts_with("dylib")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libclang_is_recognized_by_its_name() {
        for name in ["libclang.so", "libclang.so.1", "libclang-14.so", "libclang-14.so.14.0.6"] {
            assert!(is_libclang(&Path::new("/usr/lib").join(name)), "{name}");
        }
        assert!(is_libclang(Path::new("libclang.dylib")));
        for name in ["libclang-cpp.so.14", "libclangAST.a", "libclang", "clang", "libclang-14"] {
            assert!(!is_libclang(&Path::new("/usr/lib").join(name)), "{name}");
        }
    }
}
