//! A dry run refuses what the real run refuses, with the same words, and both write nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::command::{Said, TASKS, commands, config, everything_in, run};

/// The line of an error.
fn error(said: &Said) -> String {
    let mut lines = said.stderr.lines().filter(|line| line.starts_with("error: "));
    lines.next_back().unwrap_or_default().to_owned()
}

/// A row: the arguments, and a part of the error.
pub(crate) type Row<'a> = (Vec<&'a str>, &'a str);

/// Runs a row with and without `--dry-run`; returns what is wrong.
pub(crate) fn fault(dir: &Path, (arguments, words): &Row<'_>) -> Option<String> {
    let real = run(dir, arguments);
    // Behind the command: what follows `--` is not an option of `launch`.
    let (command, rest) = arguments.split_at(1);
    let dry = run(dir, &[command, &["--dry-run"], rest].concat());
    let is_refused = |said: &Said| said.code == 2 && error(said).contains(words);
    let is_same = error(&real) == error(&dry);
    (!is_refused(&real) || !is_refused(&dry) || !is_same).then(|| {
        let (real_error, dry_error) = (error(&real), error(&dry));
        format!(
            "{arguments:?}: {words}: {} {real_error}\n  dry: {} {dry_error}",
            real.code, dry.code
        )
    })
}

#[test]
fn every_dry_run_refuses_what_the_real_run_refuses_with_the_same_words() {
    const ABSENT: &str = "cargo feature `cuda`";

    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = |at: usize| {
        let small: &crate::command::Small = &TASKS[at];
        let folder = small.succeed(dir.path(), "train", &["train.epochs=1"]).run_folder();
        folder.to_str().expect("text").to_owned()
    };
    let [images, tables, converter] = [trained(0), trained(1), trained(2)];
    let [images, tables, converter] = [&images[..], &tables, &converter];
    for name in ["a.png", "b.png", "own.tif"] {
        image::RgbImage::new(16, 16).save(dir.path().join(name)).expect("saved");
    }
    let unfinished = dir.path().join("unfinished");
    fs::create_dir(&unfinished).expect("made");
    let plan = fs::read(dir.path().join(images).join("plan.toml")).expect("a plan");
    fs::write(unfinished.join("plan.toml"), plan).expect("written");
    fs::create_dir(dir.path().join("folder")).expect("made");
    let owned = dir.path().join("owned/arm-1-seed-1");
    fs::create_dir_all(&owned).expect("made");
    fs::write(owned.join("compare.json"), "{}").expect("written");

    let configs = ["quickstart.toml", "segmentation-3d.toml", "label-free.toml", "cifar10.toml"];
    let [quick, volumes, unet, cifar10] = configs.map(config);
    let rows_config = config("tables-quickstart.toml");
    let [quick, volumes, unet, cifar10] = [&quick[..], &volumes, &unet, &cifar10];
    let arms = ["--arm", "train.epochs=1", "--arm", "train.epochs=2"];
    let compare = |more: &[&'static str]| [&["compare", quick][..], &arms, more].concat();
    let cuda = ["--set", "device=cuda:0"];
    let balanced = "train.target_weights=gradient-norm";
    let space = "tune.space={seed={kind='integer',low=1,high=3}}";
    let window =
        |option, value| vec!["predict", converter, "a.png", "--out", "o.tif", option, value];
    let rows: Vec<Row<'_>> = vec![
        (vec!["train", "--device", "cuda:0"], ABSENT),
        (vec!["train", "--resume", "gone"], "not a run folder"),
        (vec!["train", "--resume", images, "--checkpoint", "99"], "no checkpoint of step 99"),
        (vec!["train", "--resume", "unfinished"], "no intact checkpoint"),
        (vec!["train", cifar10, "--data", "gone"], "gone/train.tar.gz"),
        (vec!["train", "--set", "task=chess"], "`task` is"),
        (vec!["launch", "-n", "2", "--", "train", "gone.toml"], "gone.toml"),
        (vec!["launch", "-n", "2", "--", "train", cifar10, "--data", "gone"], "gone/train.tar.gz"),
        (
            vec!["launch", "-n", "2", "--", "quantize", images],
            "`launch` starts `train`, `eval` and",
        ),
        (
            vec!["launch", "-n", "2", "--", "eval", images, "--trace-steps", "1"],
            "`--trace-steps` needs a single rank",
        ),
        (
            vec!["launch", "-n", "2", "--", "predict", images, "a.png", "--trace-steps", "1"],
            "`--trace-steps` needs a single rank",
        ),
        (vec!["launch", "-n", "2", "--min-ranks", "3", "--", "train"], "`--min-ranks` is 3"),
        (
            vec!["launch", "-n", "2", "--", "train", &rows_config, "--set", balanced],
            "`train.target_weights` needs a single rank; set it to `uncertainty`, or remove it",
        ),
        (
            vec!["train", &rows_config, "--set", "data.schema=gone.toml"],
            "`data.schema`: cannot read `gone.toml`",
        ),
        (vec!["eval", "gone"], "not a run folder"),
        (vec!["eval", "unfinished"], "no intact checkpoint"),
        (vec!["eval", images, "--checkpoint", "99"], "no checkpoint of step 99"),
        (vec!["eval", images, "--device", "cuda:0"], ABSENT),
        (vec!["eval", images, "--data", "zzz"], "--data is `zzz`"),
        (vec!["eval", images, "--int8"], "it was not quantized; `quantize "),
        (vec!["eval", images, "--int8", "--device", "flex"], "it was not quantized; `quantize "),
        (vec!["predict", images, "a.png", "--int8", "--device", "flex"], "cannot be used with"),
        (vec!["eval", images, "--int8", "--checkpoint", "6"], "cannot be used with"),
        (vec!["eval", tables, "--int8"], "eval --int8 is not for task `tables`"),
        (vec!["validate", "gone", "--against", "int8"], "not a run folder"),
        (vec!["validate", "unfinished", "--against", "int8"], "no intact checkpoint"),
        (vec!["validate", images, "--against", "gone"], "--against is `gone`"),
        (vec!["validate", images, "--against", "int8"], "it was not quantized; `quantize "),
        (vec!["validate", images, "--against", tables], "of --against of task `tables`"),
        (vec!["validate", images, "--against", "precision=f32"], "the precision of the run"),
        (vec!["predict", "gone", "a.png"], "not a run folder"),
        (vec!["predict", "unfinished", "a.png"], "no intact checkpoint"),
        (
            vec!["predict", images, "gone.png"],
            "cannot read `gone.png`: there is no such file; name",
        ),
        (vec!["predict", images, "a.png", "gone.png"], "cannot read `gone.png`"),
        (vec!["predict", images, "a.png", "--checkpoint", "99"], "no checkpoint of step 99"),
        (vec!["predict", images, "a.png", "--device", "cuda:0"], ABSENT),
        (vec!["predict", images, "a.png", "--out", "o.tif"], "leave out --out"),
        (vec!["predict", images, "gone.png", "--out", "o.tif"], "leave out --out"),
        (
            vec!["predict", tables, "a.png", "--out", "o.tif"],
            "`o.tif` does not end in .csv or .tsv",
        ),
        (vec!["predict", converter, "a.png"], "--out FILE"),
        (vec!["predict", converter, "a.png", "b.png", "--out", "o.tif"], "--out is one file"),
        (vec!["predict", converter, "gone.png", "--out", "o.tif"], "cannot read `gone.png`"),
        (vec!["predict", converter, "a.png", "--out", "a.png"], "are one file"),
        (vec!["predict", converter, "a.png", "--out", "b.png"], "is not a TIFF"),
        (
            vec!["predict", converter, "a.png", "--out", "own.tif"],
            "`own.tif` exists and was not written by `predict`; name another file, or remove it",
        ),
        (
            vec!["predict", converter, "a.png", "--out", "o.tif", "--components", "c.tif"],
            "leave out --components",
        ),
        (
            vec!["predict", converter, "a.png", "--out", "o.tif", "--truth", "gone.tif"],
            "cannot read `gone.tif`",
        ),
        (vec!["predict", converter, "a.png", "--out", "o.tif", "--top", "2"], "--top"),
        (vec!["predict", converter, "a.png", "--out", "folder"], "`folder` is a folder; name a"),
        (vec!["predict", images, "folder"], "the folder `folder` has no files to predict"),
        (vec!["predict", converter, "folder", "--out", "o.tif"], "`folder`: it is a folder; name"),
        (vec!["predict", images, "a.png", "--parts", images], "is no folder of parts"),
        (vec!["predict", images, "a.png", "--parts", "a.png"], "is no folder of parts"),
        (vec!["predict", converter, "a.png", "--parts", "p", "--out", "o.tif"], "cannot be used"),
        (window("--overlap", "2"), "`--overlap` is [2.0]; it must be 0 to 0.95"),
        (window("--overlap", "0.999999999"), "is [0.999999999]; it must be 0 to 0.95: one number"),
        (window("--sigma", "0"), "`--sigma` is [0.0]; it must be finite and above 0"),
        (window("--sigma", "0.1,0.1,0.1"), "`--sigma` is [0.1, 0.1, 0.1]; it must be finite"),
        (
            vec![
                "predict", converter, "a.png", "--out", "o.tif", "--blend", "constant", "--sigma",
                "1",
            ],
            "constant weights have no --sigma",
        ),
        (vec!["predict", converter, "a.png", "--out", "o.png"], "`o.png` does not end in .tif"),
        (window("--batch", "0"), "`--batch` is 0; it must be at least 1"),
        (window("--window", "16,16,16"), "`--window` is [16, 16, 16]; it must be 2 sides"),
        (window("--window", "17,17"), "`--window` is [17, 17]; it must be a height that is"),
        (window("--mirror", "depth"), "`--mirror` is depth; it must be axes that the input has"),
        (vec!["predict", tables, "a.png", "--top", "2"], "--top is for classes"),
        (vec!["predict", images, "a.png", "--int8"], "it was not quantized; `quantize "),
        (vec!["predict", tables, "a.png", "--int8"], "predict --int8 is not for task `tables`"),
        (
            vec!["predict", converter, "a.png", "--int8", "--out", "o.tif", "--window", "32,32"],
            "takes windows of [16, 16]: leave out --window",
        ),
        (vec!["quantize", "gone"], "not a run folder"),
        (vec!["quantize", "unfinished"], "no intact checkpoint"),
        (vec!["quantize", images, "--device", "cuda:0"], ABSENT),
        (vec!["quantize", tables], "quantize is not for task"),
        (vec!["quantize", images, "--outliers", "64"], "leave out --outliers"),
        (vec!["quantize", images, "--keep", "nope"], "--keep: no layer is named `nope`"),
        (vec!["quantize", images, "--layer", "nope=4"], "--layer: no layer is named `nope`"),
        (vec!["pipeline", "--set", "quantize.keep=['nope']"], "`quantize.keep`: no layer is named"),
        (vec!["pipeline", unet, "--keep", "nope"], "--keep: no layer is named `nope`"),
        (vec!["pipeline", "--device", "cuda:0"], ABSENT),
        (vec!["pipeline", "--resume", "gone"], "not a run folder"),
        (vec!["pipeline", volumes], "pipeline is not for task"),
        (vec!["explain", "gone.toml"], "gone.toml"),
        ([&["lr-find", quick][..], &cuda].concat(), ABSENT),
        (vec!["lr-find", "--steps", "3"], "--steps is 3"),
        (vec!["lr-find", "--page", "folder"], "--page `folder` is a folder; name a file"),
        (vec!["lr-find", "--page", "gone/page.html"], "`gone`, which is no folder; create it"),
        (compare(&["--set", "device=cuda:0"]), ABSENT),
        (compare(&["--metric", "foo"]), "--metric is `foo`"),
        (compare(&["--runs", "owned"]), "compare.json` was written by another version"),
        ([&["tune", quick, "--set", space][..], &cuda].concat(), ABSENT),
        (vec!["tune", quick], "tune"),
        ([&["batch-find", quick][..], &cuda].concat(), ABSENT),
        ([&["compare-options", quick][..], &cuda].concat(), ABSENT),
        (vec!["compare-options", quick, "--options", "speed"], "--options names `speed`"),
        ([&["batch-sweep", quick][..], &cuda].concat(), ABSENT),
        (vec!["batch-sweep", quick, "--sizes", "2,1"], "sizes must increase"),
        ([&["tune-performance", quick][..], &cuda].concat(), ABSENT),
        (
            vec!["scale-estimate", quick, "--ranks", "9999", "--bandwidth", "1", "--latency", "1"],
            "it must be at least 9999",
        ),
        (vec!["verify", "--device", "cuda:0"], ABSENT),
        (vec!["verify", "--task", "chess"], "there is no task `chess`"),
        (vec!["endure", "--task", "chess"], "there is no task `chess`"),
        (vec!["report", "gone"], "not a run folder"),
        (vec!["report", "unfinished"], "run.json"),
        ([&["warm-up", quick][..], &cuda].concat(), ABSENT),
    ];
    let before = everything_in(dir.path());
    let faults: Vec<String> = rows.iter().filter_map(|row| fault(dir.path(), row)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(everything_in(dir.path()), before, "something was written");
    let tried: BTreeSet<String> = rows.iter().map(|(row, _)| row[0].to_owned()).collect();
    // These read nothing that could be refused.
    let others = ["tasks", "probe"].map(str::to_owned);
    assert_eq!(tried.into_iter().chain(others).collect::<BTreeSet<_>>(), commands());
}

#[test]
fn a_pipeline_that_is_refused_prints_no_steps_and_gives_the_reason_of_its_plan() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let label_free = config("label-free.toml");
    for (sets, reason) in [
        (&["model.normalization='group'"][..], "`model.normalization`"),
        (&["data.patch=[16, 32, 32]", "data.sides=[24, 64, 64]"], "`data.patch` has three sides"),
    ] {
        let arguments = crate::command::with_sets(&["pipeline", &label_free, "--dry-run"], sets);
        let said = run(dir.path(), &arguments);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{sets:?}");
        assert!(said.stderr.contains(reason), "{sets:?}: {}", said.stderr);
    }
}
