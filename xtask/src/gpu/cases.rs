//! The tests of the code for GPUs: which crates have them, what they prove, and their build.

use std::collections::BTreeSet;
use std::fs;

use super::extent::Extent;
use crate::root;

/// The tests of a crate that run on a device.
#[derive(Debug)]
pub(super) struct Case {
    /// The folder in `crates/`.
    pub(super) folder: &'static str,
    /// A part of the tests' names; all tests if empty.
    pub(super) filter: &'static str,
    pub(super) proves: &'static str,
}

/// Every crate with such tests, one line each.
pub(super) const CASES: [Case; 8] = [
    case("device", "", "devices: names, dtypes, selection, memory and its peak"),
    case("kan", "cube", "KAN layers: kernels and gradients against f64, memory, launches, NaN"),
    case("conv", "cube", "kernels and layers: convolutions with norms, pooling"),
    case("optim", "cube", "training step: updates of parameters"),
    case("precision", "cube", "precision: casts, norms of gradients, scaling of losses"),
    case("trainer", "captured", "forward passes: recorded and replayed"),
    case("quant", "cube", "int8: products and networks"),
    case("cli", "cube", "commands: each task trains as on the CPU, resumes, and is used"),
];

/// Features of these crates that their tests need, where they are declared.
const EXTRAS: [&str; 4] = ["autodiff", "flex", "reference", "tracing"];

/// The feature that turns our kernels on where a crate has none for a backend.
const KERNELS: &str = "cube";

const fn case(folder: &'static str, filter: &'static str, proves: &'static str) -> Case {
    Case { folder, filter, proves }
}

/// The package of a crate.
fn package(folder: &str) -> String {
    match folder {
        "cli" => "updraft".to_owned(),
        _ => format!("updraft-{folder}"),
    }
}

/// The arguments of the one build of all cases that run, so that burn is compiled once.
///
/// # Errors
/// If a crate has no feature for the backend, or its manifest cannot be read.
pub(super) fn build(backend: &str, with: Option<&str>, extent: Extent) -> Result<String, String> {
    let packages: String =
        extent.cases().map(|case| format!(" -p {}", package(case.folder))).collect();
    let mut features = Vec::new();
    for &Case { folder, .. } in extent.cases() {
        let path = root().join("crates").join(folder).join("Cargo.toml");
        let text =
            fs::read_to_string(&path).map_err(|error| format!("`{}`: {error}", path.display()))?;
        let named = of_manifest(folder, &text, backend, with)?;
        let package = package(folder);
        features.extend(named.into_iter().map(|feature| format!("{package}/{feature}")));
    }
    Ok(format!(
        "test --no-run --profile gpu{packages} --features {} {} \
         --message-format json-render-diagnostics",
        features.join(","),
        extent.targets()
    ))
}

/// The features of a crate for a backend, from its manifest.
fn of_manifest(
    folder: &str,
    manifest: &str,
    backend: &str,
    with: Option<&str>,
) -> Result<Vec<String>, String> {
    let manifest: toml::Table =
        manifest.parse().map_err(|error| format!("`crates/{folder}/Cargo.toml`: {error}"))?;
    let declared = manifest.get("features").and_then(|features| features.as_table());
    let declared: BTreeSet<&str> =
        declared.into_iter().flat_map(toml::Table::keys).map(String::as_str).collect();
    let of_backend = [backend, KERNELS].into_iter().find(|feature| declared.contains(feature));
    let Some(of_backend) = of_backend else {
        return Err(format!(
            "`crates/{folder}/Cargo.toml` has neither a feature `{backend}` nor `{KERNELS}`; its \
             tests are in xtask/src/gpu/cases.rs, so add one, or remove its line there"
        ));
    };
    let more = with.into_iter().chain(EXTRAS).filter(|feature| declared.contains(feature));
    Ok([of_backend].into_iter().chain(more).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"a\"\n[features]\nwgpu = []\ncube = []\nflex = []\n";

    #[test]
    fn a_crate_has_the_feature_of_the_backend_or_the_one_of_our_kernels() {
        let of = |backend, with| of_manifest("a", MANIFEST, backend, with).unwrap();
        assert_eq!(of("wgpu", None), ["wgpu", "flex"]);
        assert_eq!(of("cuda", Some("fusion")), ["cube", "flex"]);
    }

    #[test]
    fn a_crate_without_a_feature_for_gpus_is_an_error() {
        let manifest = MANIFEST.replace("wgpu = []\ncube = []\n", "");
        let message = of_manifest("a", &manifest, "wgpu", None).unwrap_err();
        assert!(message.contains("neither a feature `wgpu` nor `cube`"), "{message}");
    }

    #[test]
    fn a_quick_run_builds_no_command_line_and_no_unit_tests() {
        let all = build("wgpu", None, Extent::All).unwrap();
        let quick = build("wgpu", None, Extent::Quick).unwrap();
        for (part, is_quick) in [
            (" -p updraft-kan ", true),
            ("updraft-kan/wgpu", true),
            (" --test it ", true),
            (" --lib ", false),
            (" -p updraft ", false),
            ("updraft/wgpu", false),
        ] {
            assert!(all.contains(part), "{part}: {all}");
            assert_eq!(quick.contains(part), is_quick, "{part}: {quick}");
        }
        // Words are separated by single spaces, at which `Cargo` splits them.
        assert!(!quick.contains("  "), "{quick}");
    }

    /// A crate whose tests on devices are in no case would never be tested on one.
    #[test]
    fn every_crate_with_tests_on_devices_has_a_case() {
        let mut found = 0;
        for entry in fs::read_dir(root().join("crates")).unwrap() {
            let crate_folder = entry.unwrap().path();
            let folder = crate_folder.file_name().unwrap().to_string_lossy().into_owned();
            let tests = fs::read_dir(crate_folder.join("tests").join("it"));
            let mut names = tests.into_iter().flatten().map(|test| test.unwrap().file_name());
            if names.any(|name| name.to_string_lossy().starts_with("cube")) {
                let is_listed = CASES.iter().any(|case| case.folder == folder);
                assert!(is_listed, "`crates/{folder}` is not in xtask/src/gpu/cases.rs");
                found += 1;
            }
        }
        assert!(found > 0);
    }
}
