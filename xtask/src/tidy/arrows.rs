//! Who may import whom.

use crate::tidy::Fault;
use crate::tidy::house::House;

/// The table of docs/architecture.md: a missing pair is a forbidden arrow, a missing crate a
/// crate without a place in the house.
const MAY_IMPORT: [(&str, &[&str]); 12] = [
    ("device", &[]),
    ("precision", &[]),
    ("data", &[]),
    ("conv", &[]),
    ("kan", &[]),
    ("trainer", &["device", "precision", "data"]),
    ("integration", &["conv"]),
    ("quant", &["conv"]),
    ("cli", &["conv", "kan", "device", "precision", "data", "trainer", "integration", "quant"]),
    (
        "benches",
        &["conv", "kan", "device", "precision", "data", "trainer", "integration", "quant", "cli"],
    ),
    ("testing", &[]),
    ("xtask", &[]),
];

/// The crate that only tests may use.
const TESTING: &str = "testing";

pub(super) fn faults(house: &House) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in &house.packages {
        let place = &package.manifest;
        let folder = &package.folder;
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| name == folder) else {
            let message = format!(
                "crate `{folder}` has no place in the house; \
                 give it one in xtask/src/tidy/arrows.rs and docs/architecture.md"
            );
            faults.push(Fault::new(place, message));
            continue;
        };
        for dependency in &package.dependencies {
            let other = &dependency.folder;
            let is_allowed = match (dependency.is_dev, other == TESTING) {
                (true, true) => folder != TESTING,
                (false, true) => false,
                (_, false) => allowed.contains(&other.as_str()) || other == folder,
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
