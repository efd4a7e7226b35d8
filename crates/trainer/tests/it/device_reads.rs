//! Where the sources of training read the device: a read that is not listed here may make every
//! update wait.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Calls that read the device, or wait for it.
const READS: [&str; 22] = [
    ".into_data()",
    ".to_data()",
    ".into_data_async()",
    ".to_data_async()",
    ".try_into_data()",
    ".into_scalar()",
    ".into_scalar::<",
    ".try_into_scalar()",
    ".try_into_scalar::<",
    ".into_scalar_async()",
    ".into_scalar_async::<",
    ".execute()",
    ".try_execute()",
    ".execute_async()",
    ".sync()",
    ".all_finite()",
    ".to_floats()",
    ".to_numbers()",
    ".to_record()",
    ".unscale(",
    "first_non_finite(",
    "clip_global_norm(",
];

/// The files with such calls: how many, and why an update does not wait for them.
const ALLOWED: [(&str, usize, &str); 22] = [
    ("optim/src/count.rs", 1, "once for a history: checkpoints, and updates that the host decides"),
    ("optim/src/sgd.rs", 1, "the state of a checkpoint"),
    ("precision/src/clip.rs", 2, "for loops that read each update"),
    ("precision/src/finite.rs", 1, "names a gradient after an error"),
    ("precision/src/unscale.rs", 1, "names a gradient after an error"),
    ("trainer/src/benchmark.rs", 1, "a benchmark"),
    ("trainer/src/bn_recompute.rs", 1, "between epochs, and before the first update"),
    ("trainer/src/checkpoint/optimizer.rs", 1, "before the first update"),
    ("trainer/src/checkpoint/save.rs", 2, "a checkpoint, before which updates are read"),
    ("trainer/src/device_read.rs", 1, "the read that is counted"),
    ("trainer/src/gradients.rs", 2, "compares ways to compute gradients"),
    ("trainer/src/guard.rs", 4, "names a tensor after an error, where each update is read"),
    ("trainer/src/loss/gradient_norm.rs", 1, "updates of the weights of losses, on the host"),
    ("trainer/src/loss/uncertainty.rs", 1, "a report after an epoch"),
    ("trainer/src/monitor.rs", 1, "`Timing::Done`, which waits for each phase"),
    ("trainer/src/own_loop.rs", 1, "`Timing::Done`, which waits for each phase"),
    ("trainer/src/ranks/fingerprint.rs", 1, "several ranks, after an epoch"),
    ("trainer/src/ranks/packing.rs", 1, "several ranks, which read each update"),
    ("trainer/src/ranks/start.rs", 1, "several ranks, before the first update"),
    ("trainer/src/ranks/statistics.rs", 1, "several ranks, which read each update"),
    ("trainer/src/rehearse.rs", 2, "two updates that are measured"),
    ("trainer/src/tensors.rs", 6, "the functions that `guard.rs` calls"),
];

/// The code of a file before its tests, without comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_tests = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].contains("mod ");
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    let is_code = |line: &&&str| !line.trim_start().starts_with("//");
    lines[..end].iter().filter(is_code).copied().collect::<Vec<_>>().join("\n")
}

/// The number of calls in each file of a folder that has some.
fn count(folder: &Path, crates: &Path, found: &mut BTreeMap<String, usize>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count(&path, crates, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_name().is_some_and(|name| name != "tests.rs")
        {
            let code = code(&path);
            let calls = READS.iter().map(|call| code.matches(call).count()).sum();
            if calls > 0 {
                let parts = path.strip_prefix(crates).unwrap().components();
                let parts: Vec<_> = parts.map(|part| part.as_os_str().to_str().unwrap()).collect();
                found.insert(parts.join("/"), calls);
            }
        }
    }
}

#[test]
fn every_read_of_the_device_is_listed_with_its_reason() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeMap::new();
    for name in ["trainer", "precision", "optim"] {
        count(&crates.join(name).join("src"), crates, &mut found);
    }
    let listed = ALLOWED.iter().map(|(file, calls, _)| ((*file).to_owned(), *calls));
    let listed: BTreeMap<String, usize> = listed.collect();
    assert_eq!(found, listed, "read through `device_read.rs`, or list the file with a reason");
}
