//! Bad input: one clear line, exit code 2, nothing half-written.

use std::fs;
use std::path::Path;

use crate::command::{Said, run, succeed, tiny};

fn refused(dir: &Path, arguments: &[&str], words: &[&str]) -> Said {
    let said = run(dir, arguments);
    assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
    let errors: Vec<_> = said.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{arguments:?}: {}", said.stderr);
    for word in words {
        assert!(errors[0].contains(word), "{arguments:?}: `{word}` is missing: {}", errors[0]);
    }
    assert!(!dir.join("runs").exists(), "{arguments:?} left a run folder");
    said
}

fn config(name: &str) -> String {
    format!("{}/../../configs/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_key_that_the_chosen_kind_does_not_read_is_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (set, key) in [
        ("train.non_finite={kind=\"stop\", at_most=3}", "train.non_finite.at_most"),
        ("train.schedule={kind=\"constant\", floor=0.1}", "train.schedule.floor"),
        ("train.loss={kind=\"cross-entropy\", gamma=2.0}", "train.loss.gamma"),
        ("train.loss_scale={kind=\"none\", scale=8.0}", "train.loss_scale.scale"),
    ] {
        let said = run(dir.path(), &["explain", "--set", set]);
        assert_eq!(said.code, 2, "{set}\n{}", said.stdout);
        assert!(
            said.stderr.contains(&format!(
                "`{key}` is not read beside `{}.kind = ",
                &key[..key.rfind('.').expect("nested")]
            )),
            "{}",
            said.stderr
        );
    }
}

#[test]
fn a_missing_data_folder_says_where_it_looked_with_how_to_get_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let cifar10 = config("cifar10.toml");
    refused(dir.path(), &["train", &cifar10], &["--data DIR", "CIFAR-10"]);
    refused(dir.path(), &["train", &cifar10, "--data", "gone"], &["gone/train.tar.gz", "CIFAR-10"]);
}

#[test]
fn a_dry_run_looks_for_the_data_and_reads_none_of_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let [cifar10, wine] = ["cifar10.toml", "kan-wine.toml"].map(config);
    for command in ["train", "pipeline", "lr-find", "batch-find", "warm-up"] {
        let lacking = [command, &cifar10, "--data", "gone", "--dry-run"];
        let said =
            refused(dir.path(), &lacking, &["looked for `", "gone/train.tar.gz", "CIFAR-10"]);
        assert!(said.stdout.contains("would read   "), "{}", said.stdout);
        let trains = ["train", "pipeline"].contains(&command);
        assert_eq!(said.stdout.contains("name = \"cifar10\""), trains, "{}", said.stdout);
    }
    let arms = ["--arm", "train.epochs=1", "--arm", "train.epochs=2", "--dry-run"];
    let compare = [&["compare", &wine, "--data", "gone"][..], &arms].concat();
    refused(dir.path(), &compare, &["gone/winequality-red.csv"]);
    for name in ["winequality-red.csv", "winequality-white.csv"] {
        fs::write(dir.path().join(name), "not read").expect("written");
    }
    succeed(dir.path(), &["train", &wine, "--data", ".", "--dry-run"]);
}

#[test]
fn a_folder_for_data_that_is_generated_is_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let words = ["--data: `data.dir` is not read beside `data.source = \"generated\"`"];
    refused(dir.path(), &["train", "--data", "zzz"], &words);
    let run = succeed(dir.path(), &tiny(&["--runs", "kept"])).run_folder();
    let run = run.to_str().expect("text");
    for arguments in [&["eval", run][..], &["quantize", run], &["train", "--resume", run]] {
        for dry in [&["--dry-run"][..], &[]] {
            let all = [arguments, &["--data", "zzz"], dry].concat();
            refused(dir.path(), &all, &["--data is `zzz`, and the data is generated"]);
        }
    }
}

#[test]
fn a_run_folder_that_does_not_exist_is_named_with_and_without_a_dry_run() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for arguments in [
        &["eval", "gone"][..],
        &["predict", "gone", "a.png"],
        &["train", "--resume", "gone"],
        &["pipeline", "--resume", "gone"],
        &["quantize", "gone"],
        &["report", "gone"],
    ] {
        for dry in [&["--dry-run"][..], &[]] {
            refused(dir.path(), &[arguments, dry].concat(), &["`gone` is not a run folder"]);
        }
    }
}

#[test]
fn a_run_that_ended_before_its_first_checkpoint_says_how_to_start_again() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = succeed(dir.path(), &tiny(&["--runs", "kept"])).run_folder();
    let path = dir.path().join(&run);
    fs::remove_dir_all(path.join("checkpoints")).expect("removed");
    let run = run.to_str().expect("text");
    let advice = format!("train {run}/plan.toml");
    let commands = [&["eval", run][..], &["train", "--resume", run], &["predict", run, "a.png"]];
    // The summary of a run that ended says that there were some.
    for reason in ["that of step 12 was removed or damaged", "training ended before its first"] {
        for arguments in commands {
            let words = [reason, "no intact checkpoint", "start again", advice.as_str()];
            refused(dir.path(), arguments, &words);
        }
        if path.join("summary.json").exists() {
            fs::remove_file(path.join("summary.json")).expect("removed");
        }
    }
    succeed(dir.path(), &["train", &format!("{run}/plan.toml"), "--dry-run"]);
}

#[test]
fn outliers_that_the_network_has_no_place_for_are_refused_before_the_data_is_opened() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = succeed(dir.path(), &tiny(&["--runs", "kept"])).run_folder();
    for dry in [&["--dry-run"][..], &[]] {
        let quantize = ["quantize", run.to_str().expect("text"), "--outliers", "64"];
        let words = ["`model.kind = \"separable\"`", "leave out --outliers"];
        let said = refused(dir.path(), &[&quantize[..], dry].concat(), &words);
        assert!(!said.stderr.contains("open the data"), "{}", said.stderr);
    }
}

#[test]
fn classes_are_not_asked_of_a_run_that_predicts_numbers() {
    let small = &crate::command::TASKS[1];
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = small.succeed(dir.path(), "train", &["train.epochs=1"]).run_folder();
    fs::write(dir.path().join("one.csv"), "x1,x2\n0.5,0.5\n").expect("written");
    let said = crate::command::run(
        dir.path(),
        &["predict", run.to_str().expect("text"), "one.csv", "--top", "3"],
    );
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("--top is for classes, and `"), "{}", said.stderr);
}

#[test]
fn the_quickstart_is_that_of_the_task_and_a_change_that_it_does_not_fit_asks_for_a_file() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for small in &crate::command::TASKS {
        let task = format!("task='{}'", small.task);
        let plan = succeed(dir.path(), &["train", "--dry-run", "--set", &task]).stdout;
        assert!(plan.contains(&format!("task = \"{}\"", small.task)), "{plan}");
    }
    let words = ["`data.source = \"folders\"` does not go with the quickstart", "pass a config"];
    let said = refused(dir.path(), &["train", "--set", "data.source=folders"], &words);
    assert!(!said.stderr.contains("the quickstart:"), "{}", said.stderr);
}

#[test]
fn a_page_without_a_folder_is_refused_before_the_search() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let small = &crate::command::TASKS[1];
    let mut arguments = small.arguments("lr-find", &[]);
    arguments.extend(["--steps", "12", "--page", "gone/page.html"].map(str::to_owned));
    let said = run(dir.path(), &crate::command::texts(&arguments));
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("--page is in `gone`, which is no folder"), "{}", said.stderr);
}

#[test]
fn a_truncated_archive_is_named() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(4000);
    header.set_cksum();
    archive.append_data(&mut header, "train/cat/1.jpg", &[0; 4000][..]).expect("appended");
    let bytes = archive.into_inner().expect("finished");
    fs::write(dir.path().join("train.tar"), &bytes[..2000]).expect("written");
    fs::write(dir.path().join("test.tar"), &bytes[..2000]).expect("written");
    let cifar10 = config("cifar10.toml");
    let arguments = [
        "train",
        &cifar10,
        "--data",
        ".",
        "--set",
        "data.train=train.tar",
        "--set",
        "data.test=test.tar",
    ];
    refused(dir.path(), &arguments, &["train.tar"]);
}

#[test]
fn an_image_that_does_not_decode_is_named_by_path_with_index() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for class in ["a", "b"] {
        let folder = dir.path().join("images").join(class);
        fs::create_dir_all(&folder).expect("created");
        for index in 0..3 {
            let path = folder.join(format!("{index}.png"));
            image::RgbImage::new(8, 8).save(path).expect("saved");
        }
    }
    fs::write(dir.path().join("images/b/1.png"), b"not an image").expect("written");
    let images = config("images.toml");
    refused(dir.path(), &["train", &images, "--data", "images"], &["b/1.png", "4"]);
}

#[test]
fn a_class_folder_without_images_is_named() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::create_dir_all(dir.path().join("images/empty")).expect("created");
    let images = config("images.toml");
    refused(dir.path(), &["train", &images, "--data", "images"], &["empty"]);
}

#[test]
fn an_unknown_config_key_names_the_nearest_known_one() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), "[train]\nepoch = 3\n").expect("written");
    refused(dir.path(), &["train", "c.toml"], &["c.toml:2", "`train.epoch`", "`train.epochs`"]);
}

#[test]
fn a_value_out_of_range_is_named_with_its_range() {
    let dir = tempfile::tempdir().expect("temporary folder");
    refused(
        dir.path(),
        &["train", "--set", "train.batch=1"],
        &["`train.batch` is 1", "at least 2"],
    );
}

#[test]
fn a_recipe_is_inherited_in_a_file_and_not_on_the_command_line() {
    let dir = tempfile::tempdir().expect("temporary folder");
    refused(
        dir.path(),
        &["train", "--dry-run", "--set", "inherit=recipes/early-accuracy.toml"],
        &["`inherit` is \"recipes/early-accuracy.toml\"", "in a file"],
    );
}

#[test]
fn a_missing_config_is_named() {
    let dir = tempfile::tempdir().expect("temporary folder");
    refused(dir.path(), &["train", "gone.toml"], &["gone.toml"]);
}

#[test]
fn a_device_that_is_not_compiled_in_names_the_cargo_feature() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let words = ["`cuda:0`", "cargo feature `cuda`"];
    refused(dir.path(), &["train", "--device", "cuda:0"], &words);
}

#[test]
fn an_unknown_device_is_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let words = ["--device: `device` is \"abacus\"; it must be `auto`"];
    refused(dir.path(), &["train", "--device", "abacus"], &words);
    refused(dir.path(), &["explain", "--device", "abacus"], &words);
    refused(dir.path(), &["warm-up", "--device", ""], &["--device <DEVICE>"]);
    let keys = ["explain", "--keys", "tables", "--device", "flex"];
    refused(dir.path(), &keys, &["cannot be used with"]);
    // A setting has the last word, and is the one that the error names.
    let both = ["train", "--device", "flex", "--set", "device=abacus"];
    let said = refused(dir.path(), &both, &["`device` is \"abacus\""]);
    assert!(!said.stderr.contains("--device: "), "{}", said.stderr);
    let run = succeed(dir.path(), &tiny(&["--runs", "kept"])).run_folder();
    let run = run.to_str().expect("text");
    for command in [&["eval", run][..], &["predict", run, "a.png"], &["verify"]] {
        refused(dir.path(), &[command, &["--device", "abacus"]].concat(), &["--device abacus: "]);
    }
}

#[test]
fn a_folder_that_is_no_run_is_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for command in ["eval", "predict"] {
        let mut arguments = vec![command, "gone"];
        if command == "predict" {
            arguments.push("image.png");
        }
        refused(dir.path(), &arguments, &["`gone`", "not a run folder"]);
    }
    refused(dir.path(), &["train", "--resume", "gone"], &["`gone`", "not a run folder"]);
}

#[test]
fn a_damaged_checkpoint_is_refused_with_both_hashes() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&["--runs", "kept"])).run_folder();
    let model = dir.path().join(&folder).join("checkpoints/step-00000012/model.bpk");
    let mut bytes = fs::read(&model).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&model, bytes).expect("written");
    let folder = folder.to_str().expect("text");
    refused(dir.path(), &["eval", folder], &["model.bpk", "damaged", "SHA-256"]);
}

#[test]
fn a_prediction_for_a_file_that_is_no_image_names_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&["--runs", "kept"])).run_folder();
    fs::write(dir.path().join("text.jpg"), b"hello").expect("written");
    let folder = folder.to_str().expect("text");
    refused(dir.path(), &["predict", folder, "text.jpg"], &["text.jpg"]);
    refused(dir.path(), &["predict", folder, "gone.jpg"], &["gone.jpg"]);
}
