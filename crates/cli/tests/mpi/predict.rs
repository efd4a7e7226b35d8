//! `eval` and `predict`: two and three ranks print and write what one does.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::SystemTime;

use crate::processes::{
    finished, kill_rank_1, launcher, mpirun, mpirun_of, run_of, updraft, wait_until,
};

/// `eval` and `predict` print what one rank prints, for any number of ranks.
pub(crate) fn scores_and_predictions(run: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("in");
    fs::create_dir(&images).unwrap();
    for at in 0..300_u16 {
        let pixel = |x, y| image::Rgb([(x * 9) as u8, (y * 7) as u8, (at % 256) as u8]);
        let image = image::RgbImage::from_fn(16, 16, pixel);
        image.save(images.join(format!("{at:03}.png"))).unwrap();
    }
    let (run, images) = (run.to_str().unwrap(), images.to_str().unwrap());
    let parts = folder.path().join("parts");
    let kept = ["predict", run, images, "--json", "--parts", parts.to_str().unwrap()];
    for arguments in [
        &["eval", run, "--json", "--tta", "flip"][..],
        &["predict", run, images],
        &["predict", run, images, "--json", "--top", "2"],
        &kept,
    ] {
        let printed = |child: Child| {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{arguments:?}: {text}");
            String::from_utf8(output.stdout).unwrap()
        };
        let alone = printed(updraft(arguments));
        assert!(alone.lines().count() >= if arguments[0] == "eval" { 1 } else { 300 });
        for ranks in [2, 3] {
            if parts.exists() {
                fs::remove_dir_all(&parts).unwrap();
            }
            assert!(printed(mpirun_of(ranks, arguments)) == alone, "{arguments:?}, {ranks} ranks");
        }
    }
    println!("eval and predict: two and three ranks print what one prints");

    // Of 150 parts, those that were finished when rank 1 was killed are not repeated.
    fs::remove_dir_all(&parts).unwrap();
    let finished = || fs::read_dir(&parts).map_or(0, Iterator::count);
    let child = launcher(&[], &kept);
    wait_until("a part", || finished() > 10);
    kill_rank_1(&parts);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("from what is finished"), "{text}");
    let alone = updraft(&["predict", run, images, "--json"]).wait_with_output().unwrap();
    assert!(output.stdout == alone.stdout, "{text}");
    println!("launch: rank 1 of predict was killed, and the restarted ranks print the same");

    let mut child = launcher(&[], &["predict", run, images]);
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    kill_rank_1(&folder.path().join("in"));
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && text.contains("only with --parts or --out"),
        "{text}"
    );

    fs::write(folder.path().join("in/150.png"), "no image").unwrap();
    let alone = updraft(&["predict", run, images]).wait_with_output().unwrap();
    let ranks = mpirun(&["predict", run, images]).wait_with_output().unwrap();
    assert_eq!((alone.status.code(), ranks.status.code()), (Some(2), Some(2)));
    assert!(ranks.stdout == alone.stdout && !alone.stdout.is_empty());
    let text = String::from_utf8_lossy(&ranks.stderr).into_owned();
    assert!(text.contains("150.png"), "{text}");
    println!("predict: a damaged file ends all ranks after the lines before it");
}

/// `predict --out` writes the file that one rank writes, for any number of ranks.
pub(crate) fn windows_of_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = "task = \"image-to-image\"\n[data]\ntarget = \"image\"\npatch = [16, 16]\npatches = 8\n\
                  sides = [32, 32]\ntrain_fields = 2\ntest_fields = 1\n[model]\n\
                  filters = [4, 8]\n[train]\nepochs = 1\nbatch = 4\n";
    fs::write(path("config.toml"), config).unwrap();
    let trained = updraft(&["train", &path("config.toml"), "--runs", &path("runs")]);
    finished(trained);
    let run = run_of(Path::new(&path("runs"))).unwrap();
    let (run, input) = (run.to_str().unwrap(), path("in.png"));
    let pixel = |x, y| image::Luma([(x * 3 + y * y) as u8]);
    image::GrayImage::from_fn(101, 67, pixel).save(&input).unwrap();
    let predict = |out: &'static str| -> Vec<String> {
        let words = ["predict", run, &input, "--batch", "3", "--out"];
        words.into_iter().map(str::to_owned).chain([path(out)]).collect()
    };
    let words = predict("1.tif");
    let alone = updraft(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(alone.wait_with_output().unwrap().status.success());
    let expected = fs::read(path("1.tif")).unwrap();
    for (ranks, out) in [(2, "2.tif"), (3, "3.tif")] {
        let words = predict(out);
        let child = mpirun_of(ranks, &words.iter().map(String::as_str).collect::<Vec<_>>());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(printed.matches("67 x 101").count(), 1, "one rank prints: {printed}");
        assert!(fs::read(path(out)).unwrap() == expected, "{ranks} ranks");
    }
    println!("predict --out: two and three ranks write the file that one writes");
}

/// `predict` prints for one table what one rank prints, for any number of ranks.
pub(crate) fn rows_of_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = "task = \"tables\"\n[data]\nsource = \"formula\"\ntrain_rows = 96\n\
                  test_rows = 20\n[model]\nkind = \"mlp\"\nhidden = [8]\n[train]\n\
                  epochs = 1\nbatch = 24\n";
    fs::write(path("config.toml"), config).unwrap();
    finished(updraft(&["train", &path("config.toml"), "--runs", &path("runs")]));
    let run = run_of(Path::new(&path("runs"))).unwrap();
    let (run, table) = (run.to_str().unwrap(), path("rows.csv"));
    let row =
        |at: usize| format!("{},{}\n", (at % 100) as f64 / 100.0, (at * 31 % 97) as f64 / 97.0);
    let rows = |bad: Option<usize>| {
        let line = |at: usize| if bad == Some(at) { "bad,0\n".to_owned() } else { row(at) };
        format!("x1,x2\n{}", (0..20_000).map(line).collect::<String>())
    };
    for (bad, code) in [(None, 0), (Some(9000), 2)] {
        fs::write(&table, rows(bad)).unwrap();
        for arguments in [&["predict", run, &table][..], &["predict", run, &table, "--json"]] {
            let ended = |child: Child| {
                let output = child.wait_with_output().unwrap();
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(code), "{text}");
                assert!(code == 0 || text.contains("line 9002"), "{text}");
                output.stdout
            };
            let alone = ended(updraft(arguments));
            let lines = alone.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(lines, bad.map_or(20_000, |_| 8192));
            for ranks in [2, 3] {
                assert!(
                    ended(mpirun_of(ranks, arguments)) == alone,
                    "{arguments:?}, {ranks} ranks"
                );
            }
        }
    }
    println!("predict: two and three ranks print for a table what one prints, and its bad row");

    fs::write(&table, rows(None)).unwrap();
    let out = |ranks: usize| path(&format!("of-{ranks}/predicted.csv"));
    finished(updraft(&["predict", run, &table, "--out", &out(1)]));
    let alone = fs::read(out(1)).unwrap();
    for ranks in [2, 3] {
        let output = mpirun_of(ranks, &["predict", run, &table, "--out", &out(ranks)]);
        let output = output.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        assert_eq!(printed.matches("20000 rows").count(), 1, "one rank prints: {printed}");
        assert!(fs::read(out(ranks)).unwrap() == alone, "{ranks} ranks");
    }
    fs::write(&table, rows(Some(9000))).unwrap();
    let refused = mpirun_of(2, &["predict", run, &table, "--out", &path("bad/predicted.csv")]);
    let refused = refused.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && text.contains("line 9002"), "{text}");
    assert_eq!(fs::read_dir(path("bad")).unwrap().count(), 0, "something is left");
    println!("predict --out: two and three ranks write the table of one, and none of bad rows");

    // Of 49 blocks, those that were finished when rank 1 was killed are not repeated.
    let rows: String = (0..200_000).map(row).collect();
    fs::write(&table, format!("x1,x2\n{rows}")).unwrap();
    let parts = folder.path().join("parts");
    let child =
        launcher(&[], &["predict", run, &table, "--json", "--parts", parts.to_str().unwrap()]);
    wait_until("a block", || blocks(&parts).len() > 4);
    kill_rank_1(&parts);
    let kept = blocks(&parts);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("from what is finished"), "{text}");
    let alone = updraft(&["predict", run, &table, "--json"]).wait_with_output().unwrap();
    assert!(output.stdout == alone.stdout, "{text}");
    let all = blocks(&parts);
    assert!(kept.len() < all.len() && all.len() == 49, "{} and {}", kept.len(), all.len());
    assert!(kept.iter().all(|(path, written)| all[path] == *written), "a block is repeated");
    println!("launch: rank 1 of predict was killed, and {} blocks of a table are kept", kept.len());
}

/// The finished blocks of a table, with the times at which they were written.
fn blocks(parts: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let entries = fs::read_dir(parts).into_iter().flatten().flatten();
    let blocks = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("part-") && name.ends_with(".txt")
    });
    blocks.map(|it| (it.path(), it.metadata().unwrap().modified().unwrap())).collect()
}
