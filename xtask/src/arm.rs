//! `test-arm`: the kernels' tests on aarch64, under emulation where the machine is another.

use std::process::{Command, ExitCode, Stdio};

use crate::cargo::Cargo;
use crate::print;

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The crates with kernels, without burn: what differs on another processor.
const TESTS: Cargo<'_> = Cargo {
    arguments: "test -p updraft-simd -p updraft-conv -p updraft-kan -p updraft-quant -p updraft-data \
                --no-default-features --features updraft-simd/rayon,updraft-kan/reference \
                --lib --test it --target aarch64-unknown-linux-gnu --target-dir target/arm",
    environment: &[],
};

/// The linker and the emulator of Debian's packages.
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";

/// Compilers that may have the target: the pinned one, if rustup has added it, and Debian's.
const COMPILERS: [&str; 2] = ["rustc", "/usr/bin/rustc"];

/// Runs the tests; an error if they cannot be built or run here, except in a dry run.
pub(crate) fn run(dry_run: bool) -> ExitCode {
    match missing() {
        Some(missing) if !dry_run => {
            crate::refuse(&format!("`cargo xtask test-arm` needs {missing}; see docs/ci.md"))
        }
        _ => test(dry_run).err().unwrap_or(ExitCode::SUCCESS),
    }
}

fn test(dry_run: bool) -> Result<(), ExitCode> {
    let compiler = compiler().unwrap_or(COMPILERS[0]);
    let environment = [
        ("RUSTC", compiler),
        ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER),
        ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", EMULATOR),
        // Under QEMU 7.2, threads of programs that load the C library wait forever.
        ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static"),
    ];
    let used = if is_native() { &environment[..1] } else { &environment[..] };
    let tests = Cargo { environment: used, ..TESTS };
    print(&format!("> {}", tests.typed()));
    if dry_run { Ok(()) } else { tests.run() }
}

/// The missing requirements of the tests.
pub(crate) fn missing() -> Option<String> {
    let mut missing = Vec::new();
    if compiler().is_none() {
        missing.push(format!("a compiler with the target {TARGET}"));
    }
    if !is_native() {
        let tools = [LINKER, EMULATOR].into_iter().filter(|tool| !crate::is_here(tool));
        missing.extend(tools.map(str::to_owned));
    }
    (!missing.is_empty()).then(|| missing.join(" and "))
}

const fn is_native() -> bool {
    cfg!(all(target_arch = "aarch64", target_os = "linux"))
}

/// The first compiler whose standard library for the target is installed.
fn compiler() -> Option<&'static str> {
    COMPILERS.into_iter().find(|compiler| {
        let printed = Command::new(compiler)
            .args(["--print", "target-libdir", "--target", TARGET])
            .stderr(Stdio::null())
            .output();
        printed.is_ok_and(|printed| {
            let folder = String::from_utf8_lossy(&printed.stdout);
            std::fs::read_dir(folder.trim()).is_ok_and(|mut files| files.next().is_some())
        })
    })
}
