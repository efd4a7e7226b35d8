//! Which crate may import which.

use crate::tidy::Fault;
use crate::tidy::workspace::Workspace;

/// The library crates, which the application crates may all import.
const LIBRARIES: [&str; 15] = [
    "allocator",
    "distributed",
    "simd",
    "optim",
    "conv",
    "kan",
    "transformer",
    "device",
    "precision",
    "data",
    "trainer",
    "integration",
    "models",
    "quant",
    "tune",
];

/// The table of docs/architecture.md: a missing pair is a forbidden dependency, and a missing crate
/// is an error. The names in the second list are allowed, and [`LIBRARIES`] if the third column is
/// true.
const MAY_IMPORT: [(&str, &[&str], bool); 21] = [
    ("allocator", &[], false),
    ("device", &[], false),
    ("precision", &["simd"], false),
    ("simd", &[], false),
    ("distributed", &[], false),
    ("data", &["simd"], false),
    ("optim", &["simd"], false),
    ("conv", &["simd"], false),
    ("kan", &["simd"], false),
    ("transformer", &["simd"], false),
    ("trainer", &["device", "precision", "optim", "data", "distributed"], false),
    ("integration", &["conv", "transformer"], false),
    ("models", &["simd", "conv", "kan", "transformer"], false),
    ("quant", &["simd", "conv"], false),
    ("tune", &[], false),
    ("run", &[], true),
    ("cli", &["run"], true),
    ("benches", &["run", "cli"], true),
    ("example-task", &["run", "cli"], true),
    ("testing", &[], false),
    ("xtask", &[], false),
];

/// The crate that only tests may use.
const TESTING: &str = "testing";

pub(super) fn faults(workspace: &Workspace) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in &workspace.packages {
        let place = &package.manifest;
        let folder = &package.folder;
        let Some((_, allowed, takes_libraries)) =
            MAY_IMPORT.iter().find(|(name, ..)| name == folder)
        else {
            let message = format!(
                "crate `{folder}` has no row in the table of dependencies; \
                 add one to xtask/src/tidy/dependencies.rs and docs/architecture.md"
            );
            faults.push(Fault::new(place, message));
            continue;
        };
        for dependency in &package.dependencies {
            let other = &dependency.folder;
            let is_allowed = match (dependency.is_dev, other == TESTING) {
                (true, true) => folder != TESTING,
                (false, true) => false,
                (_, false) => {
                    let is_library = *takes_libraries && LIBRARIES.contains(&other.as_str());
                    is_library || allowed.contains(&other.as_str()) || other == folder
                }
            };
            if !is_allowed {
                let kind = if dependency.is_dev { " for tests" } else { "" };
                faults
                    .push(Fault::new(place, format!("`{folder}` may not import `{other}`{kind}")));
            }
            if dependency.is_dev && dependency.has_version {
                let message = format!(
                    "the dev-dependency on `{other}` has a version; name its path alone, \
                     so that it does not hold up publishing"
                );
                faults.push(Fault::new(place, message));
            }
        }
    }
    faults
}
