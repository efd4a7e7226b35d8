//! Keys that the data or another run does not match are refused by name before work starts, with the
//! same words by `--dry-run`.

use std::fs;
use std::path::Path;

use crate::command::{run, succeed, with_sets};
use crate::dry_run::fault;

const TABLES: &str = "task = \"tables\"\ndata = { train_rows = 96, test_rows = 20 }\n\
    train = { batch = 24 }\n";

const IMAGES: &str = "data = { height = 16, width = 16, train_images = 96, test_images = 20 }\n\
    model = { kind = \"separable\", channels = 4 }\ntrain = { epochs = 1, batch = 24 }\n";

const PATCHES: &str = "task = \"image-to-image\"\n[data]\npatch = [16, 16]\npatches = 8\n\
    sides = [32, 32]\ntrain_fields = 3\ntest_fields = 1\n[model]\nfilters = [2, 4]\n";

const MASKED: &str = "task = \"masked-images\"\n[data]\npatch = [16, 16]\npatches = 8\n\
    sides = [32, 32]\ntrain_fields = 3\ntest_fields = 1\n[model]\npatch = [4, 4]\n";

/// A configuration, settings of it, and a part of the error.
type Row<'a> = (&'a str, &'a [&'a str], &'a str);

/// Tries each row with and without `--dry-run`, for these commands.
fn assert_refused(dir: &Path, commands: &[&str], rows: &[Row<'_>]) {
    for (name, text) in [("tables", TABLES), ("images", IMAGES), ("patches", PATCHES)] {
        fs::write(dir.join(format!("{name}.toml")), text).expect("written");
    }
    fs::write(dir.join("masked.toml"), MASKED).expect("written");
    let mut faults = Vec::new();
    for (name, sets, words) in rows {
        let file = format!("{name}.toml");
        for command in commands {
            let row = (with_sets(&[command, &file], sets), *words);
            faults.extend(fault(dir, &row));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(!dir.join("runs").exists(), "a run folder was made");
}

#[test]
fn a_batch_of_more_samples_than_the_generated_data_has_is_refused_by_every_command() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let commands = [
        "train",
        "lr-find",
        "batch-find",
        "batch-sweep",
        "compare-options",
        "tune-performance",
        "warm-up",
    ];
    let rows: &[Row<'_>] = &[
        ("tables", &["train.batch=97"], "`train.batch` is 97; it must be at most 96, which is"),
        ("images", &["train.batch=97"], "`train.batch` is 97; it must be at most 96, which is"),
        ("images", &["train.batch=99999999999"], "it must be at most 16777216"),
        (
            "patches",
            &["data.patches=1"],
            "`train.batch` is 4; it must be at most 3, `data.patches`",
        ),
        ("masked", &["train.batch=25"], "`train.batch` is 25; it must be at most 24, "),
        (
            "patches",
            &["data.classes=2"],
            "`data.classes` is 2; it must be at least 3 without a data",
        ),
    ];
    assert_refused(dir.path(), &commands, rows);
}

#[test]
fn a_batch_that_is_searched_for_may_be_given_beside_fewer_samples() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (name, text) in [("tables.toml", TABLES), ("patches.toml", PATCHES)] {
        fs::write(dir.path().join(name), text).expect("written");
        let sets = ["train.batch=5000", "train.auto_batch={}"];
        succeed(dir.path(), &with_sets(&["train", "--dry-run", name], &sets));
    }
}

#[test]
fn a_run_that_a_key_names_must_exist_and_be_of_its_task() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("t.toml"), TABLES).expect("written");
    let arguments = with_sets(&["train", "t.toml"], &["train.epochs=1"]);
    let arguments = [&arguments[..], &["--runs", "others"]].concat();
    let other = succeed(dir.path(), &arguments).run_folder();
    let other = other.to_str().expect("text");
    let begun = dir.path().join("begun");
    fs::create_dir(&begun).expect("made");
    fs::write(begun.join("plan.toml"), IMAGES).expect("written");
    let of = |key: &str, run: &str| format!("{key}={run:?}");
    let [teacher, pruned, encoder] = ["train.teacher", "model.pruned_from", "model.encoder"];
    let is_none = "must be a trained run: `x` is not a run folder";
    let transformer =
        ["model={kind=\"vision-transformer\",embedding=8,layers=1,heads=2}", "model.patch=[4,4]"];
    let [x_taught, x_pruned, x_encoded] = [teacher, pruned, encoder].map(|key| of(key, "x"));
    let [o_taught, o_encoded] = [teacher, encoder].map(|key| of(key, other));
    let b_taught = of(teacher, "begun");
    let encoded = |set: &'static str| [transformer[0], transformer[1], set];
    let [x_encoded, o_encoded] = [x_encoded, o_encoded].map(|set| &*set.leak());
    let rows: &[Row<'_>] = &[
        ("images", &[&x_taught], is_none),
        ("images", &[&x_taught], "`train.teacher` is `x`; it "),
        ("images", &[&x_pruned, "model.prune_ratio=0.5"], "`model.pruned_from` is `x`; it must be"),
        ("images", &encoded(x_encoded), "`model.encoder` is `x`; it must be a trained run"),
        ("patches", &encoded(x_encoded), "`model.encoder` is `x`; it must be a trained run"),
        ("images", &[&o_taught], "a run of `tables`; it must be one of `image-classification`"),
        ("images", &encoded(o_encoded), "a run of `tables`; it must be one of `masked-images`"),
        ("images", &[&b_taught], "`train.teacher` is `begun`; it must be a trained run: "),
    ];
    assert_refused(dir.path(), &["train", "lr-find", "warm-up"], rows);
}

#[test]
fn a_manifest_that_the_keys_do_not_match_is_refused_with_its_name() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = dir.path().join("volumes");
    fs::create_dir(&folder).expect("made");
    for name in ["a.tif", "b.tif"] {
        image::GrayImage::new(32, 32).save(folder.join(name)).expect("saved");
    }
    for (name, text) in [
        ("one.csv", "input,labels\na.tif,a.tif\n"),
        ("none.csv", "input,labels\n"),
        ("columns.csv", "labels\na.tif\n"),
        ("files.csv", "input,labels\nc.tif,a.tif\n"),
        ("split.csv", "input,labels,split\na.tif,a.tif,train\n"),
        ("target.csv", "input,position\na.tif,1\nb.tif,2\n"),
    ] {
        fs::write(folder.join(name), text).expect("written");
    }
    let at = "data.dir=\"volumes\"";
    let fraction = "`data.test_fraction` is 0.2; it must be a fraction of at least 2 positions \
                    that share no voxels, and `volumes/one.csv` has 1";
    let split = "`data.test_split` is \"test\"; it must be in the column `split` of \
                 `volumes/split.csv`: `train`";
    let target = "`data.target` is \"labels\"; it must be what every line has; \
                  `volumes/target.csv` line 2 has nothing in a column `labels`";
    let rows: &[Row<'_>] = &[
        ("patches", &[at, "data.manifest=one.csv"], fraction),
        ("patches", &[at, "data.manifest=none.csv"], "`volumes/none.csv`: the list of volumes"),
        ("patches", &[at, "data.manifest=columns.csv"], "expected a column `input`"),
        (
            "patches",
            &[at, "data.manifest=files.csv"],
            "`volumes/files.csv`: line 2, column `input`",
        ),
        ("patches", &[at, "data.manifest=split.csv"], split),
        ("patches", &[at, "data.manifest=target.csv"], target),
        ("masked", &[at, "data.manifest=one.csv"], fraction),
    ];
    assert_refused(dir.path(), &["train", "lr-find"], rows);
}

#[test]
fn columns_that_a_table_does_not_have_are_refused_with_the_key_that_names_them() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let rows: String = (0..40).map(|row| format!("{row},u{}\n", row % 3)).collect();
    fs::write(dir.path().join("a.csv"), format!("a,b\n{rows}")).expect("written");
    let text = "task = \"tables\"\ntargets = { b = { kind = \"classes\" } }\n\
                data = { source = \"files\", files = [\"a.csv\"] }\ntrain = { batch = 4 }\n";
    fs::write(dir.path().join("c.toml"), text).expect("written");
    for (set, words) in [
        ("data.numbers=[\"zz\"]", "`data.numbers` is [\"zz\"]; it must be columns of the table"),
        ("data.leave_out=[\"zz\"]", "`data.leave_out` is [\"zz\"]; it must be columns of the "),
        ("data.categories=[\"zz\"]", "`data.categories` is [\"zz\"]; it must be columns of the "),
        ("data.lists={zz=\",\"}", "`data.lists` is [\"zz\"]; it must be columns of the table"),
        ("data.replace={zz={a=\"b\"}}", "`data.replace` is [\"zz\"]; it must be columns of the "),
        ("data.features=[\"zz\"]", "`data.features` is [\"zz\"]; it must be columns of the table"),
        (
            "targets.zz={kind=\"number\"}",
            "`targets.zz` is given; it must be a column of `./a.csv`, which has no column `zz`",
        ),
        (
            "targets.b.kind=\"number\"",
            "got `u0`; correct it, add it to `data.missing` if it stands for a missing value, or \
             set `targets.b.kind`",
        ),
    ] {
        let said = run(dir.path(), &with_sets(&["train", "c.toml", "--data", "."], &[set]));
        assert_eq!(said.code, 2, "{set}: {}", said.stderr);
        assert!(said.stderr.contains(words), "{set}: {}", said.stderr);
    }
    assert!(!dir.path().join("runs").exists());
}
