//! An encoder of other settings than the network's is refused by its keys before the data is read,
//! also where the shapes of all parameters agree.

use std::fs;
use std::path::Path;

use crate::command::{run, succeed, with_sets};
use crate::dry_run::fault;

const MASKED: &str = "task = \"masked-images\"\n\
    data = { patch = [16, 16], patches = 8, sides = [32, 32], train_fields = 3, test_fields = 1 }\n\
    model = { patch = [4, 4], embedding = 12, layers = 2, heads = 2, \
    decoder = { kind = \"self-attention\", embedding = 8, layers = 1, heads = 2 } }\n\
    train = { epochs = 1, batch = 4 }\n";

const DENSE: &str = "task = \"image-to-image\"\n\
    data = { patch = [16, 16], patches = 8, sides = [32, 32], train_fields = 3, test_fields = 1 }\n\
    model = { kind = \"vision-transformer\", patch = [4, 4], embedding = 12, layers = 2, heads = 2 }\n\
    train = { epochs = 1, batch = 4 }\n";

const CLASSES: &str = "data = { height = 16, width = 16, train_images = 96, test_images = 20 }\n\
    model = { kind = \"vision-transformer\", patch = [4, 4], embedding = 12, layers = 2, heads = 2 }\n\
    train = { epochs = 1, batch = 24 }\n";

/// Trains the encoder, and returns the path of its run.
fn encoder(dir: &Path) -> String {
    for (name, text) in [("masked", MASKED), ("dense", DENSE), ("classes", CLASSES)] {
        fs::write(dir.join(format!("{name}.toml")), text).expect("written");
    }
    let trained = succeed(dir, &["train", "masked.toml", "--runs", "others"]).run_folder();
    trained.to_str().expect("text").to_owned()
}

/// The newest checkpoint of a run.
fn checkpoint(dir: &Path, run: &str) -> String {
    let folders = fs::read_dir(dir.join(run).join("checkpoints")).expect("a folder");
    let mut names: Vec<String> = folders
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    format!("{run}/checkpoints/{}", names.last().expect("a checkpoint"))
}

#[test]
fn an_encoder_of_other_settings_is_refused_by_their_keys_although_the_shapes_agree() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let other = encoder(dir.path());
    let checkpoint = checkpoint(dir.path(), &other);
    let of_run = format!("of the encoder's run `{other}`");
    let [run_set, checkpoint_set] =
        [&other, &checkpoint].map(|path| format!("model.encoder={path:?}"));
    let cases: &[(&str, &[&str], String)] = &[
        (
            "dense",
            &["data.patch=[1,16,16]", "data.sides=[2,32,32]", "model.patch=[1,4,4]"],
            format!("`data.patch` is [1, 16, 16] and that {of_run} [16, 16], `model.patch` is"),
        ),
        ("dense", &["data.patch=[8,32]"], format!("`data.patch` is [8, 32] and that {of_run} [16")),
        (
            "dense",
            &["data.patch=[8,32]", "model.patch=[2,8]"],
            "`model.patch` is [2, 8] and that of that run [4, 4]; use".to_owned(),
        ),
        ("dense", &["model.layers=1"], format!("`model.layers` is 1 and that {of_run} 2; use the")),
        ("dense", &["model.heads=3"], format!("`model.heads` is 3 and that {of_run} 2; use the")),
        (
            "dense",
            &["model.positions=learned"],
            format!("`model.positions` is \"learned\" and that {of_run} \"sine-cosine\"; use"),
        ),
        ("dense", &["model.embedding=24"], format!("`model.embedding` is 24 and that {of_run} 12")),
        (
            "classes",
            &["data.width=32"],
            format!("`[data.height, data.width]` is [16, 32] and `data.patch` {of_run} [16, 16]"),
        ),
        ("classes", &[], format!("the number of channels is 3 and that {of_run} 2; use the")),
    ];
    let mut faults = Vec::new();
    for (name, sets, words) in cases {
        let file = format!("{name}.toml");
        let sets = [*sets, &[run_set.as_str()]].concat();
        faults.extend(fault(dir.path(), &(with_sets(&["train", &file], &sets), words.as_str())));
    }
    let sets = ["model.heads=3", checkpoint_set.as_str()];
    let words = format!("`model.heads` is 3 and that of the encoder's run `{checkpoint}` 2; use");
    faults.extend(fault(dir.path(), &(with_sets(&["train", "dense.toml"], &sets), words.as_str())));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(!dir.path().join("runs").exists(), "a run folder was made");
}

#[test]
fn the_same_encoder_begins_a_network_from_a_run_and_from_a_checkpoint_in_its_folder_only() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let other = encoder(dir.path());
    let checkpoint = checkpoint(dir.path(), &other);
    for path in [&other, &checkpoint] {
        let set = format!("model.encoder={path:?}");
        succeed(dir.path(), &with_sets(&["train", "dense.toml"], &[&set]));
    }
    let moved = dir.path().join("alone");
    fs::rename(dir.path().join(&checkpoint), &moved).expect("renamed");
    let said = run(dir.path(), &with_sets(&["train", "dense.toml"], &["model.encoder=\"alone\""]));
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(
        said.stderr.contains("`alone`, a checkpoint without its run; it must"),
        "{}",
        said.stderr
    );
}

/// A file that was cut off, which the real run found only after it had read the data.
#[test]
fn a_damaged_encoder_is_refused_by_a_dry_run_too_with_what_to_do() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let other = encoder(dir.path());
    let checkpoint = checkpoint(dir.path(), &other);
    let model = dir.path().join(&checkpoint).join("model.bpk");
    let file = fs::OpenOptions::new().write(true).open(&model).expect("a model");
    file.set_len(1000).expect("cut off");
    let mut faults = Vec::new();
    for path in [&other, &checkpoint] {
        let set = format!("model.encoder={path:?}");
        for words in [
            format!(
                "`model.encoder` is `{path}`; it must be a trained run: `{checkpoint}/model.bpk"
            ),
            "; restore it from a copy, or train the run again".to_owned(),
        ] {
            let arguments = with_sets(&["train", "dense.toml"], &[&set]);
            faults.extend(fault(dir.path(), &(arguments, words.as_str())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(!dir.path().join("runs").exists(), "a run folder was made");
}
