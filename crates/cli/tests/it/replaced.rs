//! Results of a command that replaces files of a run, all or none.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::command::{run, succeed, tiny};

/// The files of a folder with their contents, without its lock and its log.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let files = entries.map(|entry| entry.path()).filter(|path| path.is_file());
    let named = files.map(|path| (name(&path), path));
    let kept = named.filter(|(name, _)| name != ".lock" && name != "log.jsonl");
    kept.map(|(name, path)| (name, fs::read(path).expect("a file"))).collect()
}

#[test]
fn a_quantization_that_cannot_write_one_of_its_files_leaves_all_as_they_were() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = succeed(dir.path(), &tiny(&["--set", "train.epochs=1"]));
    let folder = dir.path().join(trained.run_folder());
    let name = folder.to_str().expect("a path in UTF-8");
    succeed(dir.path(), &["quantize", name, "--calibration", "20"]);
    let before = contents(&folder);
    for file in ["model.int8", "model.onnx", "quant.json", "calibration.json"] {
        assert!(before.contains_key(file), "{file} is not in {:?}", before.keys());
    }
    // A folder has the name of the last file that is written.
    let report = folder.join("quant.json");
    fs::remove_file(&report).expect("removed");
    fs::create_dir(&report).expect("made");
    let quantize = ["quantize", name, "--calibration", "30", "--all-int8"];
    let failed = run(dir.path(), &quantize);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    assert!(failed.stderr.contains("quant.json`: it is a folder"), "{}", failed.stderr);
    fs::remove_dir(&report).expect("removed");
    fs::write(&report, &before["quant.json"]).expect("written");
    assert!(contents(&folder) == before, "a file is new, or a temporary one is left");

    // A device that is always full.
    #[cfg(target_os = "linux")]
    {
        let part = folder.join("quant.json.part");
        std::os::unix::fs::symlink("/dev/full", &part).expect("a link");
        let failed = run(dir.path(), &quantize);
        assert_eq!(failed.code, 1, "{}", failed.stderr);
        assert!(failed.stderr.contains("No space left on device"), "{}", failed.stderr);
        assert!(contents(&folder) == before, "a file is new");
        assert!(part.symlink_metadata().is_err(), "a temporary file is left");
    }
    succeed(dir.path(), &["eval", name, "--int8"]);
    succeed(dir.path(), &quantize);
    assert!(contents(&folder) != before);
}
