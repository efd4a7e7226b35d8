//! The int8 network of a run is that of the weights that the run serves.

use std::fs;

use crate::command::{run, succeed, tiny};

#[test]
fn an_int8_network_of_other_weights_is_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    image::RgbImage::new(4, 4).save(dir.path().join("a.png")).expect("written");
    let trained = |set: &str| {
        let folder = succeed(dir.path(), &tiny(&["--set", set])).run_folder();
        let name = folder.to_str().expect("text").to_owned();
        succeed(dir.path(), &["quantize", &name, "--calibration", "20"]);
        name
    };
    let (first, other) = (trained("seed=1"), trained("seed=2"));
    let path = |name: &str, file: &str| dir.path().join(name).join(file);
    let refused = |name: &str, reason: &str| {
        for arguments in [
            &["eval", name, "--int8"][..],
            &["eval", name, "--int8", "--dry-run"],
            &["predict", name, "a.png", "--int8"],
            &["validate", name, "--against", "int8"],
        ] {
            let said = run(dir.path(), arguments);
            assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
            let advice = format!("`quantize {name}` writes one");
            for expected in [reason, &advice] {
                assert!(said.stderr.contains(expected), "{arguments:?}: {}", said.stderr);
            }
        }
        let page = succeed(dir.path(), &["report", name]);
        assert!(page.stderr.contains(reason), "{}", page.stderr);
        let page = fs::read_to_string(path(name, "report.html")).expect("a page");
        assert!(!page.contains("Output zero") && !page.contains("signal to noise"), "{page}");
    };
    succeed(dir.path(), &["eval", &first, "--int8"]);
    let page = succeed(dir.path(), &["report", &first]);
    assert!(!page.stderr.contains("warning"), "{}", page.stderr);
    let page = fs::read_to_string(path(&first, "report.html")).expect("a page");
    assert!(page.contains("signal to noise"), "{page}");

    // The network of another run of the same shapes and steps, alone, and with its record.
    let [network, record] = ["model.int8", "quant.json"].map(|file| {
        let kept = fs::read(path(&first, file)).expect("read");
        fs::copy(path(&other, file), path(&first, file)).expect("copied");
        (file, kept)
    });
    refused(&first, "other weights of step 12 were quantized");
    fs::write(path(&first, record.0), &record.1).expect("written");
    refused(&first, "is not the file that was written with quant.json");
    fs::write(path(&first, network.0), &network.1).expect("written");
    succeed(dir.path(), &["eval", &first, "--int8"]);

    // The same step again, with another learning rate.
    let plan = path(&first, "plan.toml");
    let text = fs::read_to_string(&plan).expect("a plan");
    let line = text.lines().find(|line| line.starts_with("learning_rate = ")).expect("a rate");
    fs::write(&plan, text.replace(line, "learning_rate = 0.02")).expect("written");
    succeed(dir.path(), &["train", "--resume", &first, "--checkpoint", "6"]);
    refused(&first, "other weights of step 12 were quantized");
    succeed(dir.path(), &["quantize", &first, "--calibration", "20"]);
    succeed(dir.path(), &["eval", &first, "--int8"]);
}
