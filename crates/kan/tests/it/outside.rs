//! A package outside this workspace builds with the features that it names, and runs.

use std::path::{Path, PathBuf};
use std::process::Command;

const KERNELS: &str = r#"
use updraft_kan::slices::{Activation, Grid, LayerGeometry, Weights, evaluate};

fn main() {
    let grid = Grid::uniform(0.0, 2.0, 2, 1).expect("a grid");
    let layer = LayerGeometry::try_new(grid, 1, 1, Activation::Silu).expect("a layer");
    let weights = Weights { spline: &[3.0, 5.0, 4.0], ..Weights::default() };
    assert_eq!(evaluate(&layer, weights, &[0.5, 1.5]).expect("fits"), [4.0, 4.5]);
    print!("ran");
}
"#;

/// Runs a program in a package of its own, with the workspace's locked versions.
fn run(name: &str, dependencies: &str, program: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{}\n\n[workspace]\n",
        dependencies.replace("HERE", &here.display().to_string()),
    );
    std::fs::create_dir_all(folder.join("src")).expect("a folder");
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
    std::fs::write(folder.join("src/main.rs"), program).expect("a program");
    std::fs::copy(here.join("../../Cargo.lock"), folder.join("Cargo.lock")).expect("a lock");
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION")
        .output()
        .expect("cargo runs this test");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said == "ran", "{said}\n{complained}");
}

#[test]
fn a_package_without_burn_calls_a_kernel() {
    let dependencies = "updraft-kan = { path = \"HERE\", default-features = false }";
    run("updraft-kan-outside-kernels", dependencies, KERNELS);
}
