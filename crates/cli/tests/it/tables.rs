//! Tables: whole runs, predictions, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{TASKS, config, json, run, succeed, updraft, with_sets};

/// `y = 2a − b` on a lattice, in two files of which the second adds 100; one `a` is missing.
fn two_files(dir: &Path) -> PathBuf {
    for (name, more) in [("one.csv", 0.0), ("two.csv", 100.0)] {
        let rows = (0..60).map(|at| (f64::from(at % 10), f64::from(at / 10)));
        let lines = rows.map(|(a, b)| {
            let seen = if (a, b) == (4.0, 4.0) { "?".to_owned() } else { a.to_string() };
            format!("{seen};{};red;{b}\n", 2.0 * a - b + more)
        });
        let text = "a;y;color;b\n".to_owned() + &lines.collect::<String>();
        fs::write(dir.join(name), text).expect("written");
    }
    let text = "task = \"tables\"\n[data]\nsource = \"files\"\n\
                files = [\"one.csv\", \"two.csv\"]\ndelimiter = \"semicolon\"\n\
                features = [\"a\", \"b\"]\nfile_features = true\nscaling = \"standard\"\n\
                [targets]\ny = { kind = \"number\" }\n[model]\nkind = \"kan\"\n\
                [train]\nepochs = 3\nbatch = 16\n";
    fs::write(dir.join("c.toml"), text).expect("written");
    dir.join("c.toml")
}

#[test]
fn the_quickstart_of_splines_learns_the_formula() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let quickstart = config("kan-quickstart.toml");
    let said = succeed(dir.path(), &with_sets(&["train", &quickstart], &["train.epochs=25"]));
    let summary = json(&said.stdout);
    // The values deviate by 0.76; runs of the seeds 0 to 3 end at 0.031 to 0.047.
    assert!(summary["test"]["y-rmse"].as_f64().expect("a score") < 0.05, "{summary}");
    assert!(summary["test"]["y-r-squared"].as_f64().expect("a score") > 0.99, "{summary}");
    let run = dir.path().join(said.run_folder());
    for name in [
        "plan.toml",
        "encoder.json",
        "targets.json",
        "environment.json",
        "metrics.jsonl",
        "summary.json",
        "log.jsonl",
    ] {
        assert!(run.join(name).is_file(), "{name} is missing in {}", run.display());
    }
    assert!(
        said.stderr.contains("kan, hidden 8, ") && said.stderr.contains("rows/s"),
        "{}",
        said.stderr
    );
    assert!(!said.stderr.contains("acc "), "{}", said.stderr);

    let folder = run.to_str().expect("text");
    let evaluated = json(&succeed(dir.path(), &["eval", folder, "--json"]).stdout);
    assert_eq!(evaluated, summary["test"]);
    let line = succeed(dir.path(), &["eval", folder]).stdout;
    assert!(line.starts_with("test y-mae 0.0") && line.contains("1000 rows"), "{line}");
    succeed(dir.path(), &["report", folder]);
    let page = fs::read_to_string(run.join("report.html")).expect("a page");
    assert!(page.contains("y-r-squared") && page.contains("test y-rmse"));
}

#[test]
fn wine_quality_is_predicted_from_the_measurements() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/winequality");
    if !data.exists() {
        eprintln!("skipped: no wine quality data in `{}`", data.display());
        return;
    }
    let dir = tempfile::tempdir().expect("temporary folder");
    let (wine, data) = (config("kan-wine.toml"), data.to_str().expect("text"));
    for model in ["model.domain=2.5", "model={ kind=\"mlp\", hidden=[25, 16] }"] {
        let arguments = ["train", &wine, "--data", data];
        let said = succeed(dir.path(), &with_sets(&arguments, &[model, "train.epochs=2"]));
        let summary = json(&said.stdout);
        assert_eq!(summary["test"]["samples"].as_u64(), Some(1299), "{summary}");
        // The qualities deviate by 0.87.
        let rmse = summary["test"]["quality-rmse"].as_f64().expect("a score");
        assert!(rmse > 0.5 && rmse < 0.87, "{summary}");
        assert!(said.stderr.contains("0 categories and 12 numbers to"), "{}", said.stderr);
    }
}

#[test]
fn files_with_a_header_and_a_missing_number_train_either_network() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = two_files(dir.path());
    let config = config.to_str().expect("text");
    for model in ["model.kind=kan", "model.kind=mlp"] {
        let arguments = ["train", config, "--data", "."];
        let sets = [model, "train.epochs=60", "train.learning_rate=0.02"];
        let said = succeed(dir.path(), &with_sets(&arguments, &sets));
        let summary = json(&said.stdout);
        // The hundred can be predicted only with the feature in the files.
        assert!(summary["test"]["y-rmse"].as_f64().expect("a score") < 10.0, "{model}: {summary}");
        assert!(
            said.stderr.contains("100 training and 20 test rows, 0 categories and 4 numbers"),
            "{}",
            said.stderr
        );
    }
}

#[test]
fn what_cannot_be_learned_from_is_refused_in_one_line() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = two_files(dir.path());
    let config = config.to_str().expect("text");
    let two = fs::read_to_string(dir.path().join("two.csv")).expect("read");
    fs::write(dir.path().join("hole.csv"), two.replace("0;100;red;0", "0;?;red;0"))
        .expect("written");
    let flat = "a;y;color;b\n".to_owned() + &"1;0.1;red;3\n".repeat(40);
    fs::write(dir.path().join("flat.csv"), flat).expect("written");
    for (sets, words) in [
        (
            &["targets={quality={kind='number'}}"][..],
            &["one.csv", "no column `quality`", "`color`"][..],
        ),
        (&["data.features=[\"a\", \"c\"]"], &["`data.features`", "no column `c`"]),
        (
            &["targets={color={kind='number'}}", "data.features=[\"a\"]"],
            &["one.csv", "line 2", "`color`", "`red`"],
        ),
        (
            &["data.files=[\"hole.csv\"]"],
            &["hole.csv` line 2, column `y`", "the target is missing"],
        ),
        (
            &["data.files=[\"flat.csv\"]"],
            &["`y` is `0.1` in every", "`./flat.csv` line ", "leave it out of `targets`"],
        ),
        (&["data.files=[\"gone.csv\"]"], &["gone.csv", "not there"]),
        (&["data.delimiter=comma"], &["no column `y`"]),
        (&["train.batch=1000"], &["`train.batch` is 1000", "at most 100"]),
        (&["train.criterion=test-accuracy"], &["`train.criterion`", "`test-loss`"]),
        (&["train.epoch=1"], &["unknown key `train.epoch`", "`train.epochs`"]),
        (&["task=chess"], &["`task` is \"chess\"; it must be one of", "tables"]),
    ] {
        let said = run(dir.path(), &with_sets(&["train", config, "--data", "."], sets));
        assert_eq!(said.code, 2, "{sets:?}: {}", said.stderr);
        let errors: Vec<_> =
            said.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{sets:?}: {}", said.stderr);
        for word in words {
            assert!(errors[0].contains(word), "{sets:?}: `{word}` is missing: {}", errors[0]);
        }
    }
    assert!(!Path::new(&dir.path().join("runs")).exists(), "a refused run left a folder");
    let wine = self::config("kan-wine.toml");
    let said = run(dir.path(), &["train", &wine]);
    assert!(said.code == 2 && said.stderr.contains("wine+quality"), "{}", said.stderr);
}

#[test]
fn numbers_that_f32_cannot_hold_are_refused_with_file_line_and_column() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = two_files(dir.path());
    let config = config.to_str().expect("text");
    let one = fs::read_to_string(dir.path().join("one.csv")).expect("read");
    for (column, from, to) in
        [("y", "2;3;red;1", "2;1e39;red;1"), ("a", "2;3;red;1", "1e39;3;red;1")]
    {
        let line = one.lines().position(|line| line == from).expect("the row") + 1;
        fs::write(dir.path().join("large.csv"), one.replace(from, to)).expect("written");
        let arguments = ["train", config, "--data", "."];
        let said = run(dir.path(), &with_sets(&arguments, &["data.files=[\"large.csv\"]"]));
        assert_eq!(said.code, 2, "{}", said.stderr);
        let place =
            format!("large.csv` line {line}, column `{column}`: 1e39 is beyond what f32 holds");
        assert!(said.stderr.contains(&place), "{}", said.stderr);
    }
    // Lines without a character are no rows.
    let with_a_gap = one.replacen("\n0;", "\n\n\n0;", 1).replace("2;3;red;1", "2;1e39;red;1");
    let line = with_a_gap.lines().position(|line| line == "2;1e39;red;1").expect("the row") + 1;
    fs::write(dir.path().join("large.csv"), with_a_gap).expect("written");
    let arguments = ["train", config, "--data", "."];
    let said = run(dir.path(), &with_sets(&arguments, &["data.files=[\"large.csv\"]"]));
    let place = format!("large.csv` line {line}, column `y`");
    assert!(said.stderr.contains(&place), "{}", said.stderr);
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn words_become_inputs_and_missing_values_are_marked() {
    let dir = tempfile::tempdir().expect("temporary folder");
    // Only the word matters; some words and some numbers are missing.
    let mut text = "a,color,y\n".to_owned();
    for at in 0..120 {
        let (color, y) = [("red", 1.0), ("green", 5.0), ("blue", 9.0)][at % 3];
        let color = if at % 20 == 7 { "" } else { color };
        let a = if at % 15 == 2 { String::new() } else { (at % 7).to_string() };
        text += &format!("{a},{color},{y}\n");
    }
    fs::write(dir.path().join("t.csv"), text).expect("written");
    let config = "task = \"tables\"\n[data]\nsource = \"files\"\ndir = \".\"\n\
                  files = [\"t.csv\"]\nfeatures = [\"a\", \"color\"]\nencoding = \"one-hot\"\n\
                  [targets]\ny = { kind = \"number\" }\n\
                  [model]\nkind = \"mlp\"\nhidden = [32]\n\
                  [train]\nepochs = 40\nbatch = 8\nlearning_rate = 0.02\n";
    fs::write(dir.path().join("c.toml"), config).expect("written");
    let said = succeed(dir.path(), &["train", "c.toml"]);
    // The number, each of the words, and one more for each of both if it is missing.
    assert!(said.stderr.contains("0 categories and 6 numbers to `y`"), "{}", said.stderr);
    let summary = json(&said.stdout);
    // The values have a standard deviation of 3.3; one in twenty rows is random.
    assert!(summary["test"]["y-rmse"].as_f64().expect("a score") < 2.0, "{summary}");
    let folder = said.run_folder();
    let folder = folder.to_str().expect("text");
    let rows = "color,other,a\nred,1,3\nblue,1,3\nviolet,1,3\n,1,\n";
    fs::write(dir.path().join("new.csv"), rows).expect("written");
    let said = succeed(dir.path(), &["predict", folder, "new.csv", "--json"]);
    let values: Vec<f64> = said
        .stdout
        .lines()
        .map(|line| json(line)["targets"][0]["number"]["value"].as_f64().expect("a number"))
        .collect();
    assert_eq!(values.len(), 4, "{}", said.stdout);
    assert!((values[0] - 1.0).abs() < 1.5 && (values[1] - 9.0).abs() < 1.5, "{values:?}");
    assert!(values.iter().all(|value| value.is_finite()), "{values:?}");

    let not_a_feature = ["train", "c.toml", "--set", "data.categories=[\"colour\"]"];
    let refused = run(dir.path(), &not_a_feature);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("`data.categories` is "), "{}", refused.stderr);
    // A word is no number.
    let refused = run(dir.path(), &["train", "c.toml", "--set", "data.numbers=[\"color\"]"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("t.csv` line 2, column `color`"), "{}", refused.stderr);
}

/// Predictions of all rows have the errors that `eval` reports of the test rows among them.
#[test]
fn rows_of_a_file_are_predicted_as_they_are_scored() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = two_files(dir.path());
    let config = config.to_str().expect("text");
    let said = succeed(dir.path(), &["train", config, "--data", "."]);
    let folder = said.run_folder();
    let run_folder = dir.path().join(&folder);
    let folder = folder.to_str().expect("text");

    let mut known = Vec::new();
    for file in ["one.csv", "two.csv"] {
        let said = succeed(dir.path(), &["predict", folder, file, "--json"]);
        let text = fs::read_to_string(dir.path().join(file)).expect("read");
        let targets = text.lines().skip(1).map(|line| line.split(';').nth(1).expect("y"));
        let targets: Vec<f64> = targets.map(|y| y.parse().expect("a number")).collect();
        assert_eq!(said.stdout.lines().count(), targets.len());
        for (row, (line, y)) in said.stdout.lines().zip(targets).enumerate() {
            let predicted = json(line);
            assert_eq!(predicted["sample"], format!("{file} row {}", row + 1));
            assert_eq!(predicted["targets"][0]["name"], "y");
            known.push([y, predicted["targets"][0]["number"]["value"].as_f64().expect("a number")]);
        }
    }
    let pictures = fs::read_to_string(run_folder.join("pictures.json")).expect("pictures");
    let points = json(&pictures)[0]["points"].as_array().expect("points").clone();
    let mut squares = 0.0;
    for point in &points {
        let [y, predicted] = [0, 1].map(|at| point[at].as_f64().expect("a number"));
        let is_same =
            |known: &[f64; 2]| (known[0] - y).abs() < 1e-4 && (known[1] - predicted).abs() < 1e-3;
        assert!(known.iter().any(is_same), "no row is predicted as {point}");
        squares += (predicted - y).powi(2);
    }
    let rmse = (squares / points.len() as f64).sqrt();
    let score = json(&succeed(dir.path(), &["eval", folder, "--json"]).stdout);
    assert_eq!(score["samples"].as_u64(), Some(points.len() as u64));
    let scored = score["y-rmse"].as_f64().expect("a score");
    assert!((rmse - scored).abs() < 1e-4 * scored, "{rmse} of the rows, {scored} of `eval`");

    // As a line for a person.
    let said = succeed(dir.path(), &["predict", folder, "one.csv"]);
    assert!(said.stdout.starts_with("one.csv row 1  y  "), "{}", said.stdout);

    // A row of no file of the run has no feature of its file.
    fs::copy(dir.path().join("one.csv"), dir.path().join("other.csv")).expect("copied");
    let refused = run(dir.path(), &["predict", folder, "other.csv"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
    for word in ["other.csv", "`one.csv`, `two.csv`"] {
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
    fs::write(dir.path().join("one.csv"), "a;b\n").expect("written");
    for (file, word) in [("one.csv", "one.csv"), ("gone.csv", "gone.csv"), ("c.toml", "c.toml")] {
        let refused = run(dir.path(), &["predict", folder, file]);
        assert_eq!(refused.code, 2, "{file}: {}", refused.stderr);
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
}

#[test]
fn rows_may_move_and_other_rows_are_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = two_files(dir.path());
    let config = config.to_str().expect("text");
    let said = succeed(dir.path(), &["explain", config, "--set", "model.kind=mlp"]);
    let line = |key: &str| said.stdout.lines().find(|line| line.starts_with(key)).expect("a line");
    assert!(line("data.features").contains(" file "), "{}", said.stdout);
    assert!(line("model.kind").contains("command line"), "{}", said.stdout);

    let folder = succeed(dir.path(), &["train", config, "--data", "."]).run_folder();
    let folder = folder.to_str().expect("text");
    // The same rows may have moved.
    let moved = tempfile::tempdir().expect("temporary folder");
    for file in ["one.csv", "two.csv"] {
        fs::copy(dir.path().join(file), moved.path().join(file)).expect("copied");
    }
    succeed(dir.path(), &["eval", folder, "--data", moved.path().to_str().expect("text")]);

    // Other rows are not those that the run's numbers were scaled by.
    let one = fs::read_to_string(dir.path().join("one.csv")).expect("read");
    fs::write(dir.path().join("one.csv"), one.replace(";red;5", ";red;6")).expect("written");
    for arguments in [&["eval", folder][..], &["train", "--resume", folder]] {
        let said = run(dir.path(), arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains("is not what the run"), "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains("other values of `b`"), "{arguments:?}: {}", said.stderr);
    }
}

#[test]
fn a_narrow_precision_says_what_its_rate_promises() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = two_files(dir.path());
    let config = config.to_str().expect("text");
    let sets = ["precision=bf16-mixed", "model.kind=mlp", "train.epochs=1"];
    let said = succeed(dir.path(), &with_sets(&["train", config, "--data", "."], &sets));
    assert!(said.stderr.contains("peak     bf16 multiplies at"), "{}", said.stderr);
}

/// The most memory that a process had, in KiB.
#[cfg(target_os = "linux")]
fn peak_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[cfg(target_os = "linux")]
#[test]
fn rows_are_predicted_while_a_pipe_is_written_in_memory_that_does_not_grow() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    // The rows of a block.
    const BLOCK: usize = 4096;
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = TASKS[1].succeed(dir.path(), "train", &[]).run_folder();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let mut command = updraft(dir.path(), &["predict", run.to_str().expect("text"), "pipe"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut writer = fs::OpenOptions::new().write(true).open(&pipe).expect("a pipe");
    writer.write_all(b"x1,x2\n").expect("written");
    let (mut row, mut peaks) = (0, Vec::new());
    for block in 0..30 {
        writer.write_all("0.5,.25\n".repeat(BLOCK).as_bytes()).expect("written");
        // The end of the file is not there yet.
        for _ in 0..BLOCK {
            row += 1;
            let line = lines.next().expect("a row").expect("text");
            assert!(line.starts_with(&format!("pipe row {row}  y  ")), "{line}");
        }
        if block == 4 || block == 29 {
            peaks.push(peak_kib(child.id()));
        }
    }
    drop(writer);
    assert!(lines.next().is_none() && child.wait().expect("it ends").success());
    // The predictions of 100,000 rows take more than 10 MiB.
    // Linux sums the memory of several processors, and a later sum may be lower.
    let grown = peaks[1].saturating_sub(peaks[0]);
    assert!(grown < 4096, "{grown} KiB for 25 blocks, {peaks:?}");
}
