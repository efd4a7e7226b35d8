//! A run from the first step to its folder, and commands on it.

use std::fs;

use crate::command::{config, metrics, run, succeed, tiny};

#[test]
fn the_quickstart_learns_both_cues() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &["train"]);
    let run = dir.path().join(said.run_folder());
    let summary: serde_json::Value =
        serde_json::from_slice(&fs::read(run.join("summary.json")).expect("summary"))
            .expect("JSON");
    let accuracy = summary["test"]["accuracy"].as_f64().expect("a score");
    assert!(accuracy >= QUICKSTART_ACCURACY, "test accuracy {accuracy}");
}

/// Well below the accuracy of seeds 1 to 3, far above that of one pathway.
const QUICKSTART_ACCURACY: f64 = 0.9;

#[test]
fn a_run_leaves_its_whole_folder() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &tiny(&[]));
    let run = dir.path().join(said.run_folder());
    for name in [
        "plan.toml",
        "classes.json",
        "environment.json",
        "metrics.jsonl",
        "log.jsonl",
        "summary.json",
        "checkpoints/step-00000012/manifest.json",
    ] {
        assert!(run.join(name).is_file(), "{name} is missing in {}", run.display());
    }
    let summary = fs::read_to_string(run.join("summary.json")).expect("summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    let seconds = |name: &str| summary[name].as_f64().expect("a number");
    let first = seconds("first_batch_s");
    assert!(first > 0.0 && first < seconds("wall_s"), "{summary}");
    let environment = fs::read_to_string(run.join("environment.json")).expect("environment");
    for word in ["\"burn\"", "\"reason\"", "\"applied\"", "flex"] {
        assert!(environment.contains(word), "{word} is missing: {environment}");
    }
    let log = fs::read_to_string(run.join("log.jsonl")).expect("log");
    assert!(log.contains("checkpoint saved"), "{log}");
    let lines = metrics(&run);
    assert_eq!(lines.iter().filter(|line| line["event"] == "step").count(), 12);
    let epochs: Vec<_> = lines.iter().filter(|line| line["event"] == "epoch").collect();
    assert_eq!(epochs.len(), 2);
    assert!(epochs[0]["integration_weights"].is_array(), "{}", epochs[0]);
}

#[test]
fn a_trained_run_evaluates_to_the_score_it_reported() {
    let dir = tempfile::tempdir().expect("temporary folder");
    // As the last update left it; averaged, with recomputed batch norms; the best of all epochs.
    let averaged = ["--set", "train.ema_decay=0.9", "--set", "train.recompute_batch_norms=all"];
    let early = [
        "--set",
        "train.early_stop={patience=1}",
        "--set",
        "train.epochs=30",
        "--set",
        "train.criterion=train-loss",
        "--set",
        "train.learning_rate=3.0",
        "--set",
        "train.non_finite.kind=skip",
    ];
    for more in [&[][..], &averaged, &early] {
        let said = succeed(dir.path(), &tiny(more));
        let run = said.run_folder();
        let trained: serde_json::Value = serde_json::from_str(said.stdout.trim()).expect("JSON");
        let evaluated = succeed(dir.path(), &["eval", run.to_str().expect("text"), "--json"]);
        let evaluated: serde_json::Value =
            serde_json::from_str(evaluated.stdout.trim()).expect("JSON");
        assert_eq!(trained["test"], evaluated, "{more:?}");
        let stopped_early = said.stderr.contains("epochs stopped getting better");
        assert_eq!(stopped_early, more == early, "{}", said.stderr);
    }
}

#[test]
fn mixed_precision_trains_then_loads() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for policy in ["bf16-mixed", "f16-mixed"] {
        let said = succeed(dir.path(), &tiny(&["--set", &format!("precision={policy}")]));
        let run = said.run_folder();
        let narrow = policy.strip_suffix("-mixed").expect("mixed");
        let promise = said.stderr.lines().find(|line| line.starts_with("peak")).expect("a rate");
        assert!(promise.contains(&format!("{narrow} multiplies at ")), "{promise}");
        assert!(!promise.contains(" times f32's rate"), "{promise}");
        let shown = said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(&format!("expect longer steps with `{policy}`")), "{shown}");
        assert!(shown.contains("use `f32`"), "{shown}");
        succeed(dir.path(), &["eval", run.to_str().expect("text")]);
        let scaled =
            metrics(&dir.path().join(&run)).iter().any(|line| !line["loss_scale"].is_null());
        assert_eq!(scaled, policy == "f16-mixed");
    }
}

#[test]
fn recomputed_activations_train_what_kept_ones_do() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let loss = |mode: &str| {
        let mode = format!("train.recompute={mode}");
        let run = dir.path().join(succeed(dir.path(), &tiny(&["--set", &mode])).run_folder());
        metrics(&run).last().expect("a line")["test"]["loss"].as_f64().expect("a score")
    };
    let kept = loss("none");
    for mode in ["segments", "element-wise"] {
        let found = loss(mode);
        assert!((found - kept).abs() < 1e-3 * kept, "{mode}: {found} against {kept}");
    }
}

#[test]
fn a_prediction_of_several_targets_is_one_line_for_each_of_them() {
    let small = &crate::command::TASKS[3];
    let dir = tempfile::tempdir().expect("temporary folder");
    let rows: String = (0..40)
        .map(|at| format!("{at},{},{},{}\n", 2 * at, ["a", "b", "c"][at % 3], ["u|v", "u"][at % 2]))
        .collect();
    fs::write(dir.path().join("a.csv"), format!("x,number,class,labels\n{rows}")).expect("written");
    let targets = "number={kind='number'},class={kind='classes'},labels={kind='labels'}";
    let text = format!(
        "task = \"{}\"\ndata = {{ source = \"files\", files = [\"a.csv\"] }}\n\
         targets = {{ {targets} }}\ntrain = {{ epochs = 1, batch = 4 }}\n",
        small.task
    );
    fs::write(dir.path().join("c.toml"), text).expect("written");
    let run = succeed(dir.path(), &["train", "c.toml", "--data", "."]).run_folder();
    let run = run.to_str().expect("text");
    for (top, classes) in [(&[][..], 1), (&["--top", "2"], 2)] {
        let said = succeed(dir.path(), &[&["predict", run, "a.csv"], top].concat()).stdout;
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3 * 40, "{said}");
        assert!(!said.contains(['{', '"']), "JSON on a terminal: {said}");
        for target in ["class", "labels", "number"] {
            let start = format!("a.csv row 1  {target}  ");
            let line = lines[..3].iter().find(|line| line.starts_with(&start)).expect(target);
            let shares = line.matches(" %").count();
            assert_eq!(shares, if target == "class" { classes } else { 0 }, "{line}");
        }
        let json = succeed(dir.path(), &[&["predict", run, "a.csv", "--json"], top].concat());
        let first = crate::command::json(json.stdout.lines().next().expect("a row"));
        let kept = first["targets"][0]["classes"].as_array().expect("classes").len();
        assert_eq!(kept, classes, "{first}");
    }
}

#[test]
fn prediction_prints_class_with_probability_for_each_file() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = succeed(dir.path(), &tiny(&[])).run_folder();
    let image = dir.path().join("gray.png");
    image::RgbImage::from_pixel(50, 40, image::Rgb([120, 130, 140])).save(&image).expect("saved");
    let (run, image) = (run.to_str().expect("text"), image.to_str().expect("text"));
    let said = succeed(dir.path(), &["predict", run, image, image, "--top", "2"]);
    assert_eq!(said.stdout.lines().count(), 4, "{}", said.stdout);
    assert!(said.stdout.contains(image) && said.stdout.contains(" %"), "{}", said.stdout);
    let said = succeed(dir.path(), &["predict", run, image, "--json", "--top", "99"]);
    let value: serde_json::Value = serde_json::from_str(said.stdout.trim()).expect("JSON");
    assert_eq!(value["sample"], image);
    let sum: f64 = value["classes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|prediction| prediction["probability"].as_f64().expect("a number"))
        .sum();
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");
}

#[test]
fn images_of_anybody_train_from_a_folder_a_class() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (class, level) in [("dark", 40), ("light", 200)] {
        let folder = dir.path().join("mine").join(class);
        fs::create_dir_all(&folder).expect("created");
        for index in 0..30_u8 {
            let pixel = image::Rgb([level, level + index, level]);
            image::RgbImage::from_pixel(20, 24, pixel)
                .save(folder.join(format!("{index}.jpg")))
                .expect("saved");
        }
    }
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/images.toml");
    let said = succeed(
        dir.path(),
        &[
            "train",
            config,
            "--data",
            "mine",
            "--set",
            "data.height=16",
            "--set",
            "data.width=16",
            "--set",
            "train.epochs=3",
            "--set",
            "train.batch=8",
            "--set",
            "model.channels=2",
        ],
    );
    assert!(said.stderr.contains("48 training and 12 test images of 2 classes"), "{}", said.stderr);
    // The run stores the path of its data.
    succeed(dir.path(), &["eval", said.run_folder().to_str().expect("text")]);
}

#[test]
fn every_part_that_a_run_of_any_task_relies_on_passes_on_flex() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &["verify", "--device", "flex", "--json"]);
    let value: serde_json::Value = serde_json::from_str(said.stdout.trim()).expect("JSON");
    let results = value["results"].as_array().expect("a list");
    assert!(results.iter().all(|result| result["passed"] == true), "{value}");
    for (task, parts) in [("image-classification", 8), ("image-to-image", 6), ("tables", 5)] {
        let of_task: Vec<_> = results.iter().filter(|result| result["task"] == task).collect();
        assert_eq!(of_task.len(), parts, "{task}");
        let resume = of_task.iter().find(|result| result["part"] == "resume").expect("a result");
        assert!(resume["message"].to_string().contains("the same bits"), "{resume}");
    }
    let one = ["verify", "--device", "flex", "--task", "tables"];
    let table = succeed(dir.path(), &one).stdout;
    assert!(table.contains("tables") && !table.contains("image"), "{table}");
    let said = run(dir.path(), &["verify", "--task", "sorting"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("there is no task `sorting`"), "{}", said.stderr);
}

#[test]
fn the_algorithm_of_every_convolution_is_printed_instead_of_training() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &["train", "--explain-kernels", "--device", "flex"]);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{}", said.stdout);
    assert!(lines[0].contains("channels, 3×3"), "{}", lines[0]);
    let passes = |name| lines.iter().filter(|line| line.contains(name)).count();
    let layers = lines.iter().filter(|line| !line.starts_with(' ')).count();
    assert!(layers > 5, "{}", said.stdout);
    assert_eq!((passes("forward"), passes("weight gradient")), (layers, layers));
    assert!(!dir.path().join("runs").exists(), "nothing was trained");
    fs::write(dir.path().join("rows.toml"), "task = \"tables\"\n").expect("written");
    let said = succeed(dir.path(), &["train", "rows.toml", "--explain-kernels"]);
    assert!(said.stdout.starts_with("no convolution is computed"), "{}", said.stdout);
}

#[test]
fn convolutions_of_volumes_and_transposed_ones_are_explained_too() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (name, kernel, transposed) in [
        ("segmentation-3d.toml", "channels, 3×3×3", "channels, 2×2×2 transposed, stride 2×2×2"),
        ("label-free.toml", "channels, 3×3", "channels, 2×2 transposed, stride 2×2"),
    ] {
        let arguments = ["train", &config(name), "--explain-kernels", "--device", "flex"];
        let said = succeed(dir.path(), &arguments).stdout;
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
        let all = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let count = |part: &str| all.matches(part).count();
        let layers = said.lines().filter(|line| !line.starts_with(' ')).count();
        assert!(count(kernel) > 5 && count(transposed) >= 2, "{said}");
        assert_eq!([count("forward"), count("weight gradient")], [layers; 2], "{said}");
    }
}
