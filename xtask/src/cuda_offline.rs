//! `cuda-offline`: every kernel for GPUs compiled to machine code of NVIDIA's cards, without one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::cargo::Cargo;
use crate::{complain, print, refuse, root};

/// The program that writes kernels as CUDA C++, as a package of its own: in the workspace, cargo
/// would turn CubeCL on for every build.
const WRITE: Cargo<'_> = Cargo::new(
    "run --manifest-path xtask/cuda/Cargo.toml --target-dir target/cuda-offline/build --quiet \
     -- target/cuda-offline/kernels",
);

/// The texts and the results.
const FOLDER: &str = "target/cuda-offline/kernels";

/// The Python with NVIDIA's compilers.
const PYTHON: &str = "target/cuda-offline/python";

/// How the attribute of a kernel that is launched begins.
const LAUNCHED: &str = "#[cube(launch";

/// How the tests of a file begin, which are its end.
const TESTS: &str = "\nmod tests {";

/// A kernel of our sources.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kernel {
    /// The folder of its crate.
    folder: String,
    name: String,
    file: String,
}

/// Compiles every kernel; an error if one is not launched by the list of its crate, does not
/// compile, or spills registers to memory.
pub(crate) fn run(arguments: &[String], dry_run: bool) -> ExitCode {
    let python = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["--dry-run"] => None,
        ["--python", python]
        | ["--python", python, "--dry-run"]
        | ["--dry-run", "--python", python] => Some(python),
        _ => return refuse("`cargo xtask cuda-offline` takes --python PROGRAM and --dry-run"),
    };
    print(&format!("> {}", WRITE.typed()));
    print(&format!("> {} xtask/cuda/compile.py {FOLDER}", python.unwrap_or("python3")));
    if dry_run {
        return ExitCode::SUCCESS;
    }
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return refuse("`cargo xtask cuda-offline` needs Linux: the packages are built for it");
    }
    match compile(python) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&format!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn compile(python: Option<&str>) -> Result<(), String> {
    // Texts of earlier kernels would be compiled, too.
    let folder = root().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("`{FOLDER}`: {error}"))?;
    }
    // The versions of the workspace, which has all of these packages.
    fs::copy(root().join("Cargo.lock"), root().join("xtask/cuda/Cargo.lock"))
        .map_err(|error| format!("`xtask/cuda/Cargo.lock`: {error}"))?;
    WRITE.run().map_err(|_| "the kernels were not written".to_owned())?;
    let list = folder.join("kernels.json");
    let text =
        fs::read_to_string(&list).map_err(|error| format!("`{}`: {error}", list.display()))?;
    let launched: Value =
        serde_json::from_str(&text).map_err(|error| format!("`{}`: {error}", list.display()))?;
    let missing = missing(&of_sources()?, &launched);
    for Kernel { folder, name, file } in &missing {
        complain(&format!(
            "{file}: the kernel `{name}` is not compiled: launch it in `every_kernel` of \
             `crates/{folder}`, which CRATES of xtask/cuda/src/main.rs has to list"
        ));
    }
    let python = match python {
        Some(python) => PathBuf::from(python),
        None => installed()?,
    };
    let status = Command::new(&python)
        .args(["xtask/cuda/compile.py", FOLDER])
        .current_dir(root())
        .status()
        .map_err(|error| format!("`{}` cannot be started: {error}", python.display()))?;
    match (status.success(), missing.len()) {
        (true, 0) => Ok(()),
        (true, count) => Err(format!("{count} kernels are not in a list")),
        (false, _) => Err("kernels do not compile, or spill registers to memory".to_owned()),
    }
}

/// The Python with the pinned packages, made where it is not there.
fn installed() -> Result<PathBuf, String> {
    let requirements = "xtask/cuda/requirements.txt";
    let text = fs::read_to_string(root().join(requirements))
        .map_err(|error| format!("`{requirements}`: {error}"))?;
    let folder = root().join(PYTHON);
    let python = folder.join("bin").join("python");
    let stamp = folder.join("requirements.txt");
    if python.exists() && fs::read_to_string(&stamp).is_ok_and(|made| made == text) {
        return Ok(python);
    }
    print("installing NVIDIA's compilers: 160 MB of packages of PyPI");
    called(Path::new("python3"), &["-m", "venv", "--clear", PYTHON])?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    called(&python, &[&install[..], &[requirements]].concat())?;
    fs::write(&stamp, text).map_err(|error| format!("`{}`: {error}", stamp.display()))?;
    Ok(python)
}

fn called(program: &Path, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new(program).args(arguments).current_dir(root()).status();
    let status =
        status.map_err(|error| format!("`{}` cannot be started: {error}", program.display()))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{} {}` failed ({status})", program.display(), arguments.join(" ")))
}

/// The kernels of all crates.
fn of_sources() -> Result<Vec<Kernel>, String> {
    let mut kernels = Vec::new();
    let crates = root().join("crates");
    let entries = fs::read_dir(&crates).map_err(|error| format!("`crates/`: {error}"))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("`crates/`: {error}"))?.path();
        let folder = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        collect(&path.join("src"), &folder, &mut kernels)?;
    }
    kernels.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(kernels)
}

fn collect(place: &Path, folder: &str, kernels: &mut Vec<Kernel>) -> Result<(), String> {
    let fault = |error| format!("`{}`: {error}", place.display());
    for entry in fs::read_dir(place).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if path.is_dir() {
            collect(&path, folder, kernels)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).map_err(fault)?;
            let file = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            kernels.extend(names(&text).map(|name| Kernel {
                folder: folder.to_owned(),
                name: name.to_owned(),
                file: file.clone(),
            }));
        }
    }
    Ok(())
}

/// The functions of a source that are launched; no program has those of its tests.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let text = text.split(TESTS).next().unwrap_or(text);
    let after = text.match_indices(LAUNCHED).filter(|(at, _)| is_line(text, *at));
    after.filter_map(|(at, _)| {
        let (_, after) = text[at..].split_once("fn ")?;
        after.split(['<', '(']).next().map(str::trim)
    })
}

/// Whether only spaces are before a place in its line: comments and strings are not code.
fn is_line(text: &str, at: usize) -> bool {
    text[..at].rsplit('\n').next().is_some_and(|before| before.trim().is_empty())
}

/// Kernels that were not launched, by the module of their type, which has the function's name.
fn missing(kernels: &[Kernel], launched: &Value) -> Vec<Kernel> {
    let launched = launched.as_array().map_or(&[][..], Vec::as_slice);
    let is_launched = |kernel: &Kernel| {
        let start = format!("updraft_{}::", kernel.folder.replace('-', "_"));
        let paths = launched.iter().filter_map(|kernel| kernel["kernel"].as_str());
        // Without the arguments of generic types, which are paths as well.
        let mut paths = paths.filter_map(|path| path.split('<').next());
        paths.any(|path| {
            path.starts_with(&start) && path.rsplit("::").nth(1) == Some(kernel.name.as_str())
        })
    };
    kernels.iter().filter(|kernel| !is_launched(kernel)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kernels_are_the_functions_below_the_attribute() {
        let text = concat!(
            "/// Not `#[cube(launch)]` here.\n#[cube(launch, address_type = \"dynamic\")]\n",
            "fn dense_forward(x: &[f32]) {}\n\n#[cube]\nfn value(x: f32) -> f32 {}\n",
            "    #[cube(launch_unchecked)]\n    #[allow(unused)]\n",
            "    pub(crate) fn packed<E: Float>(x: &[E]) {}\n",
            "\n#[cfg(test)]\nmod tests {\n    #[cube(launch)]\n    fn of_a_test(x: &[f32]) {}\n}\n",
        );
        assert_eq!(names(text).collect::<Vec<_>>(), ["dense_forward", "packed"]);
    }

    #[test]
    fn a_kernel_that_no_list_launches_is_missing() {
        let kernel = |folder: &str, name: &str| Kernel {
            folder: folder.to_owned(),
            name: name.to_owned(),
            file: format!("crates/{folder}/src/{name}.rs"),
        };
        let launched = json!([
            { "kernel": "updraft_kan::kernels::cube::dense::forward::dense_forward::DenseForward" },
            { "kernel": "updraft_kan::kernels::cube::pack::pack_weights::PackWeights<half::bf16>" },
        ]);
        let kernels =
            [kernel("kan", "dense_forward"), kernel("kan", "pack"), kernel("conv", "pack_weights")];
        let names: Vec<_> = missing(&kernels, &launched).into_iter().map(|k| k.name).collect();
        // The module `pack` is of a file, and not of a kernel.
        assert_eq!(names, ["pack", "pack_weights"]);
    }

    #[test]
    fn every_crate_with_kernels_is_compiled() {
        let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
        let manifest: toml::Table = read("xtask/cuda/Cargo.toml").parse().unwrap();
        let program = read("xtask/cuda/src/main.rs");
        let kernels = of_sources().unwrap();
        assert!(kernels.iter().any(|kernel| kernel.name == "dense_forward"), "{kernels:?}");
        for Kernel { folder, name, .. } in kernels {
            // `cargo xtask tidy` checks that the crate has the feature.
            let package = format!("updraft-{folder}");
            let dependency = manifest["dependencies"].get(package.as_str());
            let features = dependency.and_then(|dependency| dependency.get("features")?.as_array());
            let has_list = features.is_some_and(|features| {
                features.iter().any(|feature| feature.as_str() == Some("every-kernel"))
            });
            let launch = format!("updraft_{}::every_kernel", folder.replace('-', "_"));
            assert!(has_list && program.contains(&launch), "`{name}` of crates/{folder}");
        }
    }
}
