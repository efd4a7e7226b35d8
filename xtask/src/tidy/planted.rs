//! Faults planted in a small workspace: each rule reports its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::tidy::workspace::Workspace;
use crate::tidy::{DEVICE_RECORD, Fault, faults};

/// A tidy workspace of four crates in a temporary folder, which is removed with it.
struct Planted(std::path::PathBuf);

impl Planted {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("updraft-tidy-{}-{number}", std::process::id());
        let workspace = Self(std::env::temp_dir().join(name));
        workspace.write("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n");
        workspace.write("configs/README.md", "`one.toml`: the first.\n");
        workspace.write("configs/one.toml", "seed = 1\n");
        workspace
            .write("docs/page.md", "See `crates/data/src/lib.rs` and [data](../crates/data/).\n");
        for name in ["conv", "data", "trainer", "testing"] {
            workspace.write(&format!("crates/{name}/Cargo.toml"), &manifest(name, ""));
            workspace.write(&format!("crates/{name}/src/lib.rs"), "//! Here.\n");
        }
        workspace
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn faults(&self) -> Vec<String> {
        faults(&Workspace::read(&self.0).unwrap()).iter().map(Fault::to_string).collect()
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        // A folder that cannot be removed stays in the system's temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn manifest(name: &str, more: &str) -> String {
    let package = "version = \"0.1.0\"\nedition = \"2024\"\npublish = false";
    format!("[package]\nname = \"updraft-{name}\"\n{package}\n{more}")
}

/// One file changed breaks exactly one rule.
#[track_caller]
fn breaks(path: &str, text: &str, expected: &str) {
    let workspace = Planted::new();
    workspace.write(path, text);
    let faults = workspace.faults();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    assert!(faults[0].starts_with(path) && faults[0].contains(expected), "{faults:#?}");
}

#[test]
fn a_tidy_repository_has_no_fault() {
    assert_eq!(Planted::new().faults(), Vec::<String>::new());
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).is_dir());
}

#[test]
fn a_dependency_of_the_table_is_allowed_and_its_reverse_is_not() {
    let workspace = Planted::new();
    let down = "[dependencies]\nupdraft-data = { path = \"../data\", version = \"0.1.0\" }\n";
    workspace.write("crates/trainer/Cargo.toml", &manifest("trainer", down));
    assert_eq!(workspace.faults(), Vec::<String>::new());
    let up = "[dependencies]\nupdraft-trainer = { path = \"../trainer\", version = \"0.1.0\" }\n";
    breaks("crates/data/Cargo.toml", &manifest("data", up), "`data` may not import `trainer`");
}

#[test]
fn a_dotted_a_renamed_and_a_target_table_count_too() {
    for table in [
        "[dependencies.updraft-trainer]\npath = \"../trainer\"\nversion = \"0.1.0\"\n",
        "[dependencies.other]\npackage = \"updraft-trainer\"\npath = \"../trainer\"\n",
        "[target.'cfg(unix)'.dependencies]\nupdraft-trainer.path = \"../trainer\"\n",
        "[build-dependencies]\nupdraft-trainer = { path = \"../trainer\" }\n",
    ] {
        let text = manifest("data", table);
        breaks("crates/data/Cargo.toml", &text, "`data` may not import `trainer`");
    }
}

#[test]
fn the_testing_crate_is_for_tests_and_carries_no_version() {
    let table = |kind: &str, more: &str| {
        let line = format!("[{kind}]\nupdraft-testing = {{ path = \"../testing\"{more} }}\n");
        manifest("data", &line)
    };
    let workspace = Planted::new();
    workspace.write("crates/data/Cargo.toml", &table("dev-dependencies", ""));
    assert_eq!(workspace.faults(), Vec::<String>::new());
    let path = "crates/data/Cargo.toml";
    breaks(path, &table("dependencies", ""), "`data` may not import `testing`");
    breaks(path, &table("dev-dependencies", ", version = \"0.1.0\""), "has a version");
}

#[test]
fn a_crate_without_a_row_is_a_fault() {
    let workspace = Planted::new();
    workspace.write("crates/attic/Cargo.toml", &manifest("attic", ""));
    workspace.write("crates/attic/src/lib.rs", "//! Here.\n");
    assert_eq!(workspace.faults().len(), 1);
    assert!(workspace.faults()[0].contains("crate `attic` has no row"), "{:?}", workspace.faults());
}

#[test]
fn a_package_outside_of_the_workspace_asks_for_features_that_exist() {
    let declared = manifest("data", "\n[features]\n# Nothing.\ndefault = []\n");
    let outside = |feature: &str| {
        format!(
            "[package]\nname = \"outside\"\n\n[workspace]\n\n[dependencies]\n\
             data = {{ path = \"../crates/data\", features = [\"{feature}\"] }}\n"
        )
    };
    let workspace = Planted::new();
    workspace.write("crates/data/Cargo.toml", &declared);
    workspace.write("outside/Cargo.toml", &outside("default"));
    assert_eq!(workspace.faults(), [""; 0]);
    workspace.write("outside/Cargo.toml", &outside("fast"));
    let faults = workspace.faults();
    assert!(faults.len() == 1 && faults[0].contains("`data` has no feature `fast`"), "{faults:?}");
}

#[test]
fn a_feature_without_a_comment_is_a_fault() {
    let text = manifest("data", "\n[features]\n# Nothing.\ndefault = []\nfast = []\n");
    breaks("crates/data/Cargo.toml", &text, "feature `fast` needs a comment line");
}

#[test]
fn a_published_crate_without_metadata_is_a_fault() {
    let published = manifest("data", "").replace("publish = false\n", "");
    let all = "description = \"a\"\nkeywords = []\ncategories = []\n[package.metadata.docs.rs]\n";
    let workspace = Planted::new();
    workspace.write("crates/data/Cargo.toml", &format!("{published}{all}"));
    assert_eq!(workspace.faults(), Vec::<String>::new());
    for (part, name) in [
        ("description = \"a\"\n", "package.description"),
        ("keywords = []\n", "package.keywords"),
        ("categories = []\n", "package.categories"),
        ("[package.metadata.docs.rs]\n", "package.metadata.docs.rs"),
    ] {
        let text = format!("{published}{}", all.replace(part, ""));
        breaks("crates/data/Cargo.toml", &text, name);
    }
}

#[test]
fn a_file_says_first_what_it_is_for() {
    breaks("crates/data/src/lib.rs", "use std::fmt;\n", "the first line must be `//!`");
}

#[test]
fn a_long_file_is_a_fault_and_an_excuse_has_a_limit() {
    let path = "crates/data/src/lib.rs";
    let lines = |count| format!("//! Here.\n{}", "const _: () = ();\n".repeat(count));
    breaks(path, &lines(400), "401 lines before the tests");
    let excuse = "// tidy: long because it is a table\n";
    let workspace = Planted::new();
    workspace.write(path, &format!("{}{excuse}", lines(400)));
    assert_eq!(workspace.faults(), Vec::<String>::new());
    workspace.write(path, &format!("{}#[cfg(test)]\n{}", lines(100), "mod x {}\n".repeat(900)));
    assert_eq!(workspace.faults(), Vec::<String>::new());
    breaks(path, &format!("{}{excuse}", lines(800)), "802 lines before the tests");
}

#[test]
fn a_vague_name_is_a_fault() {
    breaks("crates/data/src/utils.rs", "//! Things.\n", "`utils` says nothing");
}

#[test]
fn unsafe_is_for_kernels() {
    let text = concat!("//! Here.\nfn f() { uns", "afe { g() } }\n");
    breaks("crates/data/src/lib.rs", text, "belongs in a kernel file");
    breaks("crates/data/src/cpu/lib.rs", text, "belongs in a kernel file");
    for path in ["crates/data/src/kernels/bytes.rs", "crates/conv/src/kernels/direct/tile.rs"] {
        let workspace = Planted::new();
        workspace.write(path, text);
        assert_eq!(workspace.faults(), Vec::<String>::new());
    }
}

#[test]
fn burn_in_a_kernel_is_a_fault() {
    let text = "//! Here.\nuse burn::tensor::Tensor;\n";
    breaks("crates/conv/src/kernels/plan.rs", text, "burn belongs in");
    let workspace = Planted::new();
    workspace.write("crates/conv/src/ops/plain.rs", text);
    assert_eq!(workspace.faults(), Vec::<String>::new());
}

#[test]
fn an_example_that_is_never_compiled_is_a_fault() {
    let text = concat!("//! Here.\n//!\n//! ``", "`ignore\n//! x\n//! ```\n");
    breaks("crates/data/src/lib.rs", text, "never compiled");
}

#[test]
fn a_dead_path_in_a_document_is_a_fault() {
    let path = "docs/page.md";
    breaks(path, "See `crates/data/src/gone.rs`.\n", "`crates/data/src/gone.rs` does not exist");
    breaks(path, "See [data](../crates/gone/README.md).\n", "gone/README.md` does not exist");
    breaks(path, "See `gone.rs`.\n", "`gone.rs` does not exist");
    let file = "crates/data/src/lib.rs";
    let row = format!("| a test | `no_such_test` in `{file}` |\n");
    breaks(path, &row, &format!("`{file}` has no function `no_such_test`"));
    let crates = "crates/data/README.md";
    breaks(crates, "See `gone.rs`.\n", "`gone.rs` does not exist");
    let workspace = Planted::new();
    workspace.write(crates, "`lib.rs`\n");
    workspace.write(
        path,
        "`runs/x/`, `class/file`, `a/b`, [site](https://a.b/c), `cargo test`, `src/lib.rs`\n",
    );
    assert_eq!(workspace.faults(), Vec::<String>::new());
}

#[test]
fn a_config_without_a_mention_is_a_fault() {
    breaks("configs/two.toml", "seed = 1\n", "is not mentioned in configs/README.md");
}

#[test]
fn a_banned_word_is_a_fault() {
    let text = ["A line that ", "te", "lls.\n"].concat();
    breaks("docs/page.md", &text, "write `reports`");
    breaks("crates/data/src/lib.rs", &format!("//! {text}"), "write `reports`");
    breaks("configs/one.toml", &format!("# {text}seed = 1\n"), "write `reports`");
    breaks("docs/page.md", &["It rests", " on burn.\n"].concat(), "write `depends on`");
}

#[test]
fn a_banned_word_in_a_string_is_a_fault_except_in_tests() {
    let path = "crates/data/src/lib.rs";
    let literal = ["\"stopped; go \\\n    ", "on with: {}\""].concat();
    let code = format!("//! Here.\nconst MESSAGE: &str = {literal};\n");
    breaks(path, &code, "lib.rs:2: `go on`: write `continue`");
    let raw = ["r#\"It te", "lls.\"#"].concat();
    breaks(path, &format!("//! Here.\nconst MESSAGE: &str = {raw};\n"), "write `reports`");
    let workspace = Planted::new();
    workspace.write(path, &format!("//! Here.\n#[cfg(test)]\nmod tests {{\n    {literal}\n}}\n"));
    workspace.write("crates/data/tests/it/main.rs", &code);
    assert_eq!(workspace.faults(), Vec::<String>::new());
}

/// A record of tests that passed with the digest of the planted workspace.
fn recorded(workspace: &Planted) {
    let read = Workspace::read(&workspace.0).unwrap();
    let digest = crate::tidy::device_record::digest(&read).unwrap();
    let runs = format!("{{ \"runs\": [{{ \"digest\": \"0\" }}, {{ \"digest\": \"{digest}\" }}] }}");
    workspace.write(DEVICE_RECORD, &runs);
}

#[test]
fn code_for_gpus_needs_a_record_of_tests_on_a_device() {
    breaks_record("crates/conv/src/kernels/cube/tile.rs", "//! Here.\n", "does not exist");
    let workspace = Planted::new();
    workspace.write(DEVICE_RECORD, "{}\n");
    // Without code for GPUs there is nothing to test.
    assert_eq!(workspace.faults(), Vec::<String>::new());
}

#[test]
fn a_record_of_other_code_for_gpus_is_a_fault() {
    let file = "crates/conv/src/kernels/cube/tile.rs";
    for (path, text) in [
        (file, "//! There.\n"),
        ("crates/conv/src/kernels/cube/other.rs", "//! Here.\n"),
        ("crates/conv/src/ops/cube.rs", "//! Here.\n"),
        ("crates/conv/tests/it/cube/case.rs", "//! Here.\n"),
        ("xtask/src/gpu/cases.rs", "//! Here.\n"),
        ("Cargo.lock", &lock("cubecl-core")),
    ] {
        let workspace = Planted::new();
        workspace.write(file, "//! Here.\n");
        recorded(&workspace);
        assert_eq!(workspace.faults(), Vec::<String>::new());
        workspace.write(path, text);
        let faults = workspace.faults();
        assert_eq!(faults.len(), 1, "{path}: {faults:#?}");
        assert!(faults[0].starts_with(DEVICE_RECORD), "{path}: {faults:#?}");
        assert!(faults[0].contains("cargo xtask test-device"), "{path}: {faults:#?}");
    }
}

#[test]
fn other_code_and_line_endings_need_no_tests_on_a_device() {
    let file = "crates/conv/src/kernels/cube/tile.rs";
    let workspace = Planted::new();
    workspace.write(file, "//! Here.\n");
    recorded(&workspace);
    workspace.write(file, "//! Here.\r\n");
    workspace.write("crates/conv/src/kernels/plan.rs", "//! Here.\n");
    workspace.write("Cargo.lock", &lock("serde"));
    assert_eq!(workspace.faults(), Vec::<String>::new());
}

#[test]
fn a_module_for_gpus_alone_has_a_name_that_says_so() {
    let path = "crates/conv/src/lib.rs";
    let gate = "//! Here.\n#[cfg(feature = \"cube\")]\n";
    breaks(path, &format!("{gate}mod tile;\n"), "the module `tile` is compiled for GPUs alone");
    let workspace = Planted::new();
    workspace.write(path, &format!("{gate}mod cube_tile;\n"));
    assert_eq!(workspace.faults(), Vec::<String>::new());
}

/// The versions of a workspace that has one dependency.
fn lock(name: &str) -> String {
    format!("version = 4\n\n[[package]]\nname = \"{name}\"\nversion = \"0.12.0\"\n")
}

/// One file more needs a record.
#[track_caller]
fn breaks_record(path: &str, text: &str, expected: &str) {
    let workspace = Planted::new();
    workspace.write(path, text);
    let faults = workspace.faults();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    let is_of_record = faults[0].starts_with(DEVICE_RECORD);
    assert!(is_of_record && faults[0].contains(expected), "{faults:#?}");
}
