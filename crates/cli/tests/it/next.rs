//! The next commands that commands name: each works, and none is named twice.

use std::path::Path;

use crate::command::{Said, TASKS, run, succeed, texts};

/// The arguments of the next command, with files for their placeholders.
fn next(said: &Said, file: &str, out: &str) -> Option<Vec<String>> {
    let line = said.stderr.lines().find_map(|line| line.strip_prefix("next     "))?;
    let mut files = [file, out].into_iter();
    let arguments = line.split(' ').skip(1).map(|word| match word {
        "FILE" | "FILE..." => files.next().expect("at most two files").to_owned(),
        word => word.to_owned(),
    });
    Some(arguments.collect())
}

/// Follows the next commands after one to the end; returns all names, with `--int8` if given.
fn follow(dir: &Path, first: &[&str], file: &str) -> Vec<String> {
    let mut arguments: Vec<String> = first.iter().map(|word| (*word).to_owned()).collect();
    let mut names = Vec::new();
    loop {
        let is_int8 = arguments.iter().any(|argument| argument == "--int8");
        let name = if is_int8 { format!("{} --int8", arguments[0]) } else { arguments[0].clone() };
        assert!(!names.contains(&name), "{name} again after {names:?}");
        names.push(name);
        let said = succeed(dir, &texts(&arguments));
        let out = format!("out-{}.tif", names.len());
        match next(&said, file, &out) {
            Some(next) => arguments = next,
            None => return names,
        }
    }
}

#[test]
fn next_commands_work_and_end() {
    for (at, file) in [(0, "a.png"), (1, "a.csv"), (2, "gray.png")] {
        let small = &TASKS[at];
        let dir = tempfile::tempdir().expect("temporary folder");
        image::RgbImage::new(16, 16).save(dir.path().join("a.png")).expect("saved");
        image::GrayImage::from_fn(32, 32, |x, y| image::Luma([(3 * x + 4 * y) as u8]))
            .save(dir.path().join("gray.png"))
            .expect("saved");
        std::fs::write(dir.path().join("a.csv"), "x1,x2\n0.5,0.25\n").expect("written");
        let train = small.arguments("train", &["train.epochs=1"]);
        let trained = succeed(dir.path(), &texts(&train));
        let folder = trained.run_folder();
        let name = folder.to_str().expect("text");
        let predict = next(&trained, file, "out.tif").expect("a next command");
        assert_eq!(follow(dir.path(), &texts(&predict), file), ["predict", "report"]);
        let after_eval = follow(dir.path(), &["eval", name], file);
        let is_quantized = ["eval", "quantize", "predict --int8", "report"];
        let expected = if at == 1 { &["eval", "report"][..] } else { &is_quantized };
        assert_eq!(after_eval, expected, "{}", small.task);
        assert_eq!(follow(dir.path(), &["eval", name], file), ["eval", "report"]);

        // A dry run makes nothing that a next command could use.
        for command in [&["eval", name][..], &["report", name], &["quantize", name]] {
            let said = run(dir.path(), &[command, &["--dry-run"]].concat());
            assert!(!said.stderr.contains("next     "), "{command:?}: {}", said.stderr);
        }
        let dry = [&texts(&train)[..], &["--dry-run"]].concat();
        let said = succeed(dir.path(), &dry);
        assert!(!said.stderr.contains("next     "), "{}", said.stderr);
    }
}
