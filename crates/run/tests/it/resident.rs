//! Data that stays on the device: the same bits, resumed with and without it, and what is refused.

use std::fmt::Write as _;

use updraft_run::Plan;
use updraft_trainer::Ending;

use crate::any_run::contents;
use crate::plans::{read, read_with};
use crate::train::{ROWS, Watcher, device, train, workload};

const IMAGES: &str = "[data]\nheight = 16\nwidth = 16\ntrain_images = 50\ntest_images = 20\n\
                      [model]\nchannels = 4\n[train]\nepochs = 2\nbatch = 8\n";

/// Rows with words, numbers, and targets that are missing in some rows, in all of a batch, or never.
fn with_missing_targets(dir: &std::path::Path) -> String {
    let mut text = "word,number,y,kind,tags\n".to_owned();
    for row in 0..60_usize {
        let number = (row * 37 % 101) as f64 / 10.0;
        let y = if row % 3 == 0 { String::new() } else { format!("{}", number * 2.0 + 1.0) };
        let kind = if row % 4 == 1 { "" } else { ["a", "b", "c"][row * 7 % 3] };
        writeln!(text, "{},{number},{y},{kind},t{} t{}", ["x", "y"][row % 2], row % 3, row % 5)
            .expect("a text");
    }
    std::fs::write(dir.join("rows.csv"), text).expect("written");
    format!(
        "task = \"tables\"\n[targets]\ny = {{ kind = \"number\", missing = \"skip\" }}\n\
         kind = {{ kind = \"classes\", missing = \"skip\" }}\n\
         tags = {{ kind = \"labels\", separator = \" \" }}\n\
         [data]\nsource = \"files\"\nfiles = [\"rows.csv\"]\ndir = {dir:?}\ntest_fraction = 0.3\n\
         unknown_share = 0.0\n[model]\nhidden = 8\n[train]\nepochs = 2\nbatch = 4\n"
    )
}

fn plan(text: &str, sets: &[&str]) -> Plan {
    read_with(text, sets).unwrap_or_else(|error| panic!("{text}: {error}")).plan
}

const RESIDENT: &str = "train.resident={}";

#[test]
fn data_on_the_device_trains_to_the_bits_of_a_loader_and_resumes_as_one() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let rows = with_missing_targets(dir.path());
    let cases: [(&str, &[&str]); 7] = [
        (IMAGES, &[]),
        (IMAGES, &["precision=bf16-mixed", "train.accumulate=2"]),
        (IMAGES, &["train.recompute=element-wise", "train.transfer=ahead"]),
        (&rows, &[]),
        // Half of the categories are replaced by unknown, drawn again in each epoch.
        (&rows, &["data.unknown_share=0.5"]),
        (&rows, &["train.recompute=element-wise", "train.read_every=3"]),
        // Its columns have no categories, so none is replaced by unknown.
        (ROWS, &[]),
    ];
    for (text, sets) in cases {
        let loaded = plan(text, sets);
        let resident = plan(text, &[sets, &[RESIDENT]].concat());
        let run = |plan: &Plan, stop_after| {
            let mut watcher = Watcher { stop_after, ..Watcher::default() };
            train(plan, dir.path(), None, &mut watcher)
        };
        let expected = run(&loaded, None);
        let found = run(&resident, None);
        for (name, of) in contents(&found.folder) {
            assert_eq!(Some(&of), contents(&expected.folder).get(&name), "{name} {sets:?}");
        }
        assert_eq!(found.test, expected.test, "{sets:?}");
        // Stopped with the data on the device or not, and resumed the other way.
        for (first, then) in [(&resident, &loaded), (&loaded, &resident)] {
            let stopped = run(first, Some(4));
            assert_eq!(stopped.ending, Ending::Stopped);
            let resumed = train(then, dir.path(), Some(stopped.folder), &mut Watcher::default());
            assert!(contents(&resumed.folder) == contents(&expected.folder), "{sets:?}");
        }
    }
}

#[test]
fn what_is_computed_on_the_host_in_every_epoch_is_refused_beside_it() {
    let cases = [
        ("[train]\nresident = {}\n[augment]\nflip = true", "left out with `augment.flip`"),
        (
            "[train]\nresident = {}\n[augment]\nmix_up = { alpha = 0.2 }",
            "left out with `augment.mix_up`",
        ),
        (
            "task = \"image-to-image\"\n[train]\nresident = {}",
            "left out with task `image-to-image`: its patches are drawn on the host",
        ),
        ("[train]\nresident = { budget_mib = 0 }", "a `budget_mib` of at least 1"),
    ];
    for (text, expected) in cases {
        let message = read(text).err().unwrap_or_else(|| panic!("{text}: valid")).to_string();
        assert!(message.contains("`train.resident` is "), "{message}");
        assert!(message.contains(&format!("; it must be {expected}")), "{message}");
    }
}

#[test]
fn more_data_than_the_budget_is_refused_before_training() {
    let _alone = updraft_testing::alone();
    let text = "[data]\nheight = 64\nwidth = 64\ntrain_images = 40\ntest_images = 20\n";
    let plan = plan(text, &["train.resident.budget_mib=2", "train.batch=20"]);
    let dir = tempfile::tempdir().expect("temporary folder");
    let (device, selection) = device();
    let training = updraft_run::Training {
        trace_steps: None,
        plan: &plan,
        device: &device,
        selection: &selection,
        runs: dir.path(),
        resumed: None,
        collective: updraft_distributed::Shared::new(updraft_distributed::Alone),
        began: (std::time::Instant::now(), None),
    };
    let error = workload(&plan, None).train(training, &mut Watcher::default());
    let message = error.expect_err("refused").to_string();
    let expected = "training and test data take 3 MiB on the device, more than \
                    `train.resident.budget_mib`: 2; raise it, or leave out `train.resident`";
    assert_eq!(message, expected);
    assert_eq!(dir.path().read_dir().expect("a folder").count(), 0, "no run folder is left");
}
