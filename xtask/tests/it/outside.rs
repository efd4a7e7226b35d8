//! A package outside the workspace: it has burn's `flex`, and no feature of ours for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::{output_text, root};

/// Trains a layer of each crate that has kernels for flex, by burn's own operations.
const PROGRAM: &str = r#"
use burn::module::Module;
use burn::nn::conv::Conv2dConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Tensor};
use updraft_conv::Conv2d;
use updraft_kan::{KanLinear, KanLinearConfig};

const STEPS: usize = 40;

fn main() {
    let device = Device::flex().autodiff();
    device.seed(1);
    let layer = KanLinearConfig::new(2, 1).init(&device);
    assert_eq!(layer.path().to_string(), "plain");
    let x = Tensor::<2>::random([64, 2], Distribution::Uniform(-1.0, 1.0), &device);
    let y = x.clone().powi_scalar(2).sum_dim(1);
    falls(layer, &|layer: &KanLinear| (layer.forward(x.clone()) - y.clone()).powi_scalar(2).mean());

    let layer = Conv2d::new(&Conv2dConfig::new([1, 1], [3, 3]), &device);
    let x = Tensor::<4>::random([8, 1, 8, 8], Distribution::Default, &device);
    let y = x.clone().slice([0..8, 0..1, 1..7, 1..7]);
    falls(layer, &|layer: &Conv2d| (layer.forward(x.clone()) - y.clone()).powi_scalar(2).mean());
    print!("trained");
}

/// Training reduces the loss to less than half.
fn falls<M: Module>(mut layer: M, loss: &dyn Fn(&M) -> Tensor<1>) {
    let mut optimizer = AdamConfig::new().init();
    let before = loss(&layer).into_scalar::<f32>();
    for _ in 0..STEPS {
        let gradients = GradientsParams::from_grads(loss(&layer).backward(), &layer);
        layer = optimizer.step(0.05, layer, gradients);
    }
    let after = loss(&layer).into_scalar::<f32>();
    assert!(after < 0.5 * before, "{before} to {after}");
}
"#;

/// The features of burn in the workspace: with the same, burn is not built a second time.
const BURN: &str = r#"["autodiff", "capture", "extension", "flex", "ir", "optim", "rayon", "simd", "std", "x86-v4"]"#;

/// Writes the package to a folder of its own.
fn written(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("Cargo.toml"), manifest()).unwrap();
    fs::write(folder.join("src/main.rs"), PROGRAM).unwrap();
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    folder
}

/// The crates of others that a build compiles, with their versions and features.
fn crates_of_others(folder: &Path, options: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--prefix", "none", "--format", "{p} {f}"])
        .args(options)
        .current_dir(folder)
        .env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let is_of_others = |line: &&str| !line.starts_with("updraft");
    // Marked where the tree repeats a crate.
    let plain = |line: &str| line.trim_end_matches(" (*)").trim_end().to_owned();
    text.lines().filter(is_of_others).map(plain).collect()
}

#[test]
fn the_package_needs_no_crate_that_the_workspace_does_not_build() {
    let folder = written("updraft-outside-tree");
    let edges = ["--edges", "normal,build"];
    let own = crates_of_others(&folder, &edges);
    let all = crates_of_others(root(), &["--workspace", "--edges", "normal,build,dev"]);
    let missing: Vec<_> = own.difference(&all).collect();
    assert!(missing.is_empty(), "leave them out of `manifest`, or change `BURN`: {missing:?}");
}

#[test]
fn layers_train_where_burn_has_flex_and_our_kernels_are_off() {
    let folder = written("updraft-outside");
    // The workspace's build: `target/debug/xtask`.
    let target = Path::new(env!("CARGO_BIN_EXE_xtask")).ancestors().nth(2).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", target)
        .env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "trained");
}

/// A package with the workspace's dependencies and its profile, so that what both build is the
/// same; ours without the features that bring their kernels to flex.
fn manifest() -> String {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    // Our crates, burn, GPUs, and what only features need that are off by default.
    let left_out = [
        "updraft",
        "burn = ",
        "burn-cubecl",
        "cubecl",
        "nvml",
        "mpi = ",
        "turbojpeg",
        "arrow",
        "parquet",
    ];
    let is_left_out = |line: &&str| left_out.iter().any(|name| line.starts_with(name));
    let others = sections(&workspace, "[workspace.dependencies]");
    let others: Vec<&str> = others.lines().skip(1).filter(|line| !is_left_out(line)).collect();
    let ours = ["conv", "kan"];
    let dependencies = ours.map(|name| {
        let path = root().join("crates").join(name);
        format!(
            "updraft-{name} = {{ path = {path:?}, default-features = false, \
             features = [\"autodiff\"] }}\n"
        )
    });
    // Their kernels are built, but not run here.
    let profiles =
        ours.map(|name| format!("[profile.dev.package.updraft-{name}]\nopt-level = 0\n"));
    format!(
        "[package]\nname = \"updraft-outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n[dependencies]\n{}burn = {{ version = \"0.22.1\", default-features = false, \
         features = {BURN} }}\n{}\n\n{}{}",
        dependencies.concat(),
        others.join("\n"),
        sections(&workspace, "[profile.dev"),
        profiles.concat(),
    )
}

/// The sections of a manifest whose headers begin so, but for those of our crates.
fn sections(manifest: &str, header: &str) -> String {
    let mut is_inside = false;
    let mut found = String::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_inside = line.starts_with(header) && !line.contains("updraft");
        }
        if is_inside {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}
