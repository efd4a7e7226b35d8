//! Bad input of many kinds: each ends with the exit code and the words of its row.

use std::fs;
use std::path::Path;

use crate::command::{run, succeed, tiny};

/// Settings of the images' quickstart that are refused, each with a part of the message.
pub(crate) const IMAGES: &[(&str, &str)] = &[
    ("name=''", "`name` is "),
    ("name=a b", "`name` is "),
    ("train.lookahead=", "removes `train.lookahead`, which the config does not give"),
    ("name=../../etc", "`name` is "),
    ("seed=-1", "`seed` is -1"),
    ("seed=0.5", "`seed` is 0.5"),
    ("seed=18446744073709551615", "`seed` is "),
    ("device=abacus", "`device` is "),
    ("precision=f12", "`precision` is "),
    ("precision=p=f32,c=f32,o=f64", "without f64"),
    ("precision=p=f64,c=f64,o=f64", "without f64"),
    ("precision=bf16", "`precision` is "),
    ("task=chess", "`task` is "),
    ("train=3", "`train` is 3"),
    ("train.epochs=0", "`train.epochs` is 0"),
    ("train.epochs=-3", "`train.epochs` is -3"),
    ("train.epochs=nan", "`train.epochs` is "),
    ("train.epoch=3", "did you mean `train.epochs`?"),
    ("train.batch=0", "`train.batch` is 0"),
    ("train.batch=1", "`train.batch` is 1"),
    ("train.batch=many", "`train.batch` is "),
    ("train.learning_rate=0", "`train.learning_rate` is 0"),
    ("train.learning_rate=nan", "`train.learning_rate` is nan"),
    ("train.learning_rate=inf", "`train.learning_rate` is inf"),
    ("train.learning_rate=-1", "`train.learning_rate` is -1"),
    ("train.learning_rate=1e-310", "`train.learning_rate` is 1e-310"),
    ("train.schedule=cosine", "`train.schedule` is "),
    ("train.schedule={kind='step',every_steps=0}", "`train.schedule.every_steps` is 0"),
    ("train.schedule={kind='one-cycle',warmup=1}", "`train.schedule.warmup` is 1"),
    ("train.schedule={kind='exponential',last=0}", "`train.schedule.last` is 0"),
    ("train.plateau={factor=1,patience=1}", "`train.plateau.factor` is 1"),
    ("train.plateau={factor=nan,patience=1}", "`train.plateau.factor` is "),
    ("train.optimizer={kind='adamax'}", "`train.optimizer.kind` is "),
    ("train.optimizer={kind='sgd',weight_decay=-1}", "`train.optimizer.weight_decay` is -1"),
    ("train.clip_norm=0", "`train.clip_norm` is 0"),
    ("train.loss_scale={kind='static',scale=0}", "`train.loss_scale.scale` is 0"),
    ("train.loss_scale={kind='dynamic',growth=1}", "`train.loss_scale.growth` is 1"),
    ("train.recompute=all", "`train.recompute` is "),
    ("train.auto_batch={least=0}", "`train.auto_batch.least` is 0"),
    ("train.auto_batch={least=8,most=4}", "at least `train.auto_batch.least`, which is 8"),
    ("train.auto_batch={head_room=1}", "`train.auto_batch.head_room` is 1"),
    ("train.accumulate=0", "`train.accumulate` is 0"),
    ("train.accumulate=x", "`train.accumulate` is "),
    ("train.non_finite={kind='skip',at_most=0}", "`train.non_finite.at_most` is 0"),
    ("train.ema_decay=1", "`train.ema_decay` is 1"),
    ("train.ema_decay=-0.1", "`train.ema_decay` is -0.1"),
    ("train.recompute_batch_norms=0", "`train.recompute_batch_norms` is 0"),
    ("train.recompute_batch_norms=0.5", "`train.recompute_batch_norms` is 0.5"),
    ("train.criterion=best", "`train.criterion` is "),
    ("train.criterion=test-rmse", "`train.criterion` is "),
    ("train.early_stop={patience=0}", "`train.early_stop.patience` is 0"),
    ("train.early_stop={patience=1,least_gain=nan}", "`train.early_stop.least_gain` is "),
    ("train.timing=never", "`train.timing` is "),
    ("train.transfer=never", "`train.transfer` is "),
    ("train.workers=257", "`train.workers` is 257"),
    ("train.workers=3.5", "`auto` or a whole number from 0 to 256"),
    ("train.checkpoint_every_steps=0", "`train.checkpoint_every_steps` is 0"),
    ("train.keep_checkpoints=0", "`train.keep_checkpoints` is 0"),
    ("train.keep_best=-1", "`train.keep_best` is -1"),
    ("train.loss={kind='focal',gamma=1e30}", "it must be from 0 to 100"),
    ("train.loss={kind='focal',gamma=nan}", "it must be from 0 to 100"),
    ("train.loss={kind='asymmetric',positive_focus=3e38}", "it must be from 0 to 100"),
    ("train.loss={kind='asymmetric',negative_focus=3e38}", "it must be from 0 to 100"),
    ("train.loss={kind='asymmetric',margin=1}", "`train.loss.margin` is 1"),
    ("train.label_smoothing=1", "`train.label_smoothing` is 1"),
    ("log.csv=1", "`log.csv` is 1"),
    ("data.source=web", "`data.source` is "),
    ("data.height=0", "`data.height` is 0"),
    ("data.height=2147483648", "`data.height` is 2147483648"),
    ("data.width=-8", "`data.width` is -8"),
    ("data.train_images=0", "`data.train_images` is 0"),
    ("data.train_images=99999999999", "`data.train_images` is 99999999999"),
    ("data.test_images=1", "`data.test_images` is 1"),
    ("data.cue=smell", "`data.cue` is "),
    ("data.mean=[nan,0,0]", "`data.mean` is "),
    ("data.mean=[0.5]", "`data.mean` is "),
    ("data.std=[0,1,1]", "`data.std` is "),
    ("data.std=[inf,1,1]", "`data.std` is "),
    ("data.cache={kind='memory',budget_mib=0}", "`data.cache.budget_mib` is 0"),
    ("data.cache={kind='cloud'}", "`data.cache.kind` is "),
    ("data.resize={kind='pad'}", "`data.resize.kind` is "),
    ("data.resize={kind='center-crop',factor=0.9}", "`data.resize.factor` is 0.9"),
    ("data.faults={kind='skip',at_most=0}", "`data.faults.at_most` is 0"),
    ("data.dir=here", "`data.dir` is not read beside"),
    ("model.kind=cnn", "`model.kind` is "),
    ("model.channels=0", "`model.channels` is 0"),
    ("model.channels=4097", "`model.channels` is 4097"),
    ("model.stem_stride=3", "`model.stem_stride` is 3"),
    ("model.dropout=1", "`model.dropout` is 1"),
    ("model.dropout=nan", "`model.dropout` is nan"),
    ("model.brightness=bt2020", "`model.brightness` is "),
    ("model.depth=endless", "`model.depth` is "),
    ("model.integration_points=['all','early']", "`model.integration_points` is "),
    ("model.gate=soft", "`model.gate` is "),
    ("model.penalty={entropy=-1}", "`model.penalty` is "),
    ("augment.rotate=181", "`augment.rotate` is 181"),
    ("augment.rotate=nan", "`augment.rotate` is NaN"),
    ("augment.translate=16", "`augment.translate` is 16"),
    ("augment.zoom={min_factor=2,max_factor=1}", "`augment.zoom.min_factor` is 2"),
    ("augment.random_resized_crop={min_area=0}", "`augment.random_resized_crop.min_area` is 0"),
    ("augment.color_jitter={hue=0.6}", "`augment.color_jitter.hue` is 0.6"),
    ("augment.mix_up={alpha=0}", "`augment.mix_up.alpha` is 0"),
    ("augment.blur=3", "unknown key `augment.blur`"),
    ("inherit=a.toml", "`inherit` is "),
    ("epochs", "is not of the form key=value"),
    ("=3", "is not of the form key=value"),
];

/// The same of tables.
pub(crate) const TABLES: &[(&str, &str)] = &[
    ("data.formula=magic", "`data.formula` is "),
    ("data.noise=-1", "`data.noise` is -1"),
    ("data.noise=inf", "`data.noise` is inf"),
    ("data.train_rows=3", "`data.train_rows` is 3"),
    ("data.test_rows=3", "`data.test_rows` is 3"),
    ("data.test_rows=99999999999", "`data.test_rows` is 99999999999"),
    ("model.kind=tree", "`model.kind` is "),
    ("model.hidden=[0]", "`model.hidden` is "),
    ("model.hidden=[99999]", "`model.hidden` is "),
    ("model.intervals=0", "`model.intervals` is 0"),
    ("model.intervals=1000000", "it must be 1 to 4096"),
    ("model.degree=16", "`model.degree` is 16"),
    ("model.domain=0", "`model.domain` is 0"),
    ("model.domain=nan", "`model.domain` is nan"),
    ("model.outside=beyond", "`model.outside` is "),
    ("model.layers=2", "`model.layers` is "),
    ("model.penalty={l1=-1}", "`model.penalty` is "),
    ("model.penalty={roughness=1,order=8}", "`model.penalty.order` is 8"),
    ("data.encoding=words", "`data.encoding` is "),
    ("data.file_features=true", "`data.file_features` is not read beside"),
    ("targets={y={kind='number',loss={kind='huber',delta=0}}}", "`targets.y.loss` is "),
    ("train.recompute=segments", "`train.recompute` is "),
    ("train.recompute_batch_norms=3", "`train.recompute_batch_norms` is 3"),
];

/// Arguments that are refused before any work.
pub(crate) const FLAGS: &[(&[&str], &str)] = &[
    (&["trian"], "unrecognized subcommand"),
    (&["train", "--epochs", "3"], "unexpected argument"),
    (&["train", "gone.toml"], "gone.toml"),
    (&["train", "--resume", "gone"], "not a run folder"),
    (&["train", "--checkpoint", "3"], "--resume"),
    (&["eval", "gone"], "not a run folder"),
    (&["eval", "gone", "--checkpoint", "x"], "invalid value"),
    (&["predict", "gone", "a.png"], "not a run folder"),
    (&["predict", "gone"], "required"),
    (&["report", "gone"], "not a run folder"),
    (&["quantize", "gone"], "not a run folder"),
    (&["validate", "gone", "--against", "int8"], "not a run folder"),
    (&["validate", "gone"], "--against"),
    (&["validate", "gone", "--against", "precision=f31"], "must be an existing run folder"),
    (&["validate", "gone", "--against", "int8", "--tolerance", "-1"], "--tolerance is -1"),
    (&["train", "--profile", "fast"], "there is no profile `fast`"),
    (&["train", "--profile", "gone.toml"], "there is no profile `gone.toml`"),
    (&["quantize", "gone", "--calibration", "0"], "invalid value"),
    (&["quantize", "gone", "--outliers", "nan"], "positive number"),
    (&["lr-find", "--steps", "100000000000"], "--steps is 100000000000; it must be 10 to 1000000"),
    (&["lr-find", "--steps", "3"], "--steps is 3"),
    (&["lr-find", "--from", "NaN"], "--from is NaN"),
    (&["lr-find", "--to", "inf"], "--to is inf"),
    (&["lr-find", "--from", "1", "--to", "0.5"], "--to is 0.5"),
    (&["explain", "--keys", "chess"], "there is no task `chess`"),
    (&["verify", "--task", "chess"], "there is no task `chess`"),
    (&["probe", "--log", "loud"], "invalid value"),
];

fn refused(dir: &Path, arguments: &[&str], words: &str) {
    let said = run(dir, arguments);
    assert_eq!(said.code, 2, "{arguments:?}: {}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains(words), "{arguments:?}: `{words}` is missing: {}", said.stderr);
}

#[test]
fn every_kind_of_bad_table_is_refused_with_its_place() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let text = "task = \"tables\"\n[data]\nsource = \"files\"\nfiles = [\"a.csv\"]\n\
                features = [\"x\"]\nnumbers = [\"x\"]\nscaling = \"standard\"\n\
                [targets]\ny = { kind = \"number\" }\n[train]\nepochs = 1\nbatch = 4\n";
    fs::write(dir.path().join("c.toml"), text).expect("written");
    let rows = |row: &str| {
        let rows: String = (0..20).map(|at| format!("{at},{at}\n")).collect();
        format!("x,y\n{rows}{row}\n")
    };
    let wide = (0..100_000).map(|at| at.to_string()).collect::<Vec<_>>().join(",");
    for (table, words) in [
        (String::new(), "no records"),
        ("x,y\n".to_owned(), "no records"),
        ("x,z\n1,2\n".to_owned(), "no column `y`"),
        ("x,x,y\n1,2,3\n".to_owned(), "two columns `x`"),
        (rows("1"), "line 22 has 1 field; the header has 2: add the missing fields"),
        (rows("1,2,3"), "line 22 has 3 fields"),
        (rows("a,2"), "line 22, column `x`: expected a finite number"),
        (rows("inf,2"), "line 22, column `x`"),
        (rows("1,"), "line 22, column `y`: the target is missing"),
        (rows("1,1e39"), "line 22, column `y`: 1e39 is beyond what f32 holds"),
        (rows("1e300,2"), "line 22, column `x`: 1e300 is beyond what f32 holds"),
        (format!("{wide}\n{wide}\n"), "and 99988 more"),
        (format!("x,y\n\"{}", "a".repeat(17 << 20)), "a record has more than 16 MiB"),
        ("x,y\n1,2\n".to_owned(), "0 test rows are too few"),
    ] {
        fs::write(dir.path().join("a.csv"), table).expect("written");
        refused(dir.path(), &["train", "c.toml", "--data", "."], words);
    }
    fs::write(dir.path().join("a.csv"), rows("20,20")).expect("written");
    let twice = ["train", "c.toml", "--data", ".", "--set", "data.files=['a.csv','./a.csv']"];
    refused(dir.path(), &twice, "are the same");
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn every_kind_of_edited_run_is_refused_and_a_whole_checkpoint_is_named() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = succeed(dir.path(), &tiny(&["--runs", "kept"])).run_folder();
    let (name, path) = (run.to_str().expect("text"), dir.path().join(&run));
    let plan = fs::read_to_string(path.join("plan.toml")).expect("a plan");
    for (from, to, words) in [
        ("height = 16", "height = 0", "`data.height` is 0"),
        ("height = 16", "height = 2147483648", "`data.height` is 2147483648"),
        ("channels = 2", "channels = 4096", "the run began with 2"),
        ("brightness = \"bt709\"", "brightness = \"bt601\"", "the run began with \"bt709\""),
        ("seed = 1", "seed = 2", "the run began with 1"),
        ("epochs = 2", "epochs = -2", "`train.epochs` is -2"),
        ("precision = \"f32\"", "precision = \"bf16-mixed\"", "the run began with \"f32\""),
    ] {
        let edited = plan.replacen(from, to, 1);
        assert_ne!(edited, plan, "{from}");
        fs::write(path.join("plan.toml"), edited).expect("written");
        for arguments in
            [&["eval", name][..], &["predict", name, "a.png"], &["train", "--resume", name]]
        {
            refused(dir.path(), arguments, words);
        }
    }
    fs::write(path.join("plan.toml"), &plan).expect("written");
    refused(dir.path(), &["eval", name, "--checkpoint", "7"], "those of the steps 6, 12");

    let state = path.join("checkpoints/step-00000012/state.json");
    let text = fs::read(&state).expect("a state");
    fs::write(&state, [&text[..], b" "].concat()).expect("written");
    refused(dir.path(), &["train", "--resume", name], "--checkpoint 6");
    let model = path.join("checkpoints/step-00000012/model.bpk");
    let mut bytes = fs::read(&model).expect("a model");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&model, bytes).expect("written");
    refused(dir.path(), &["eval", name], "--checkpoint 6");
    succeed(dir.path(), &["eval", name, "--checkpoint", "6"]);
    succeed(dir.path(), &["train", "--resume", name, "--checkpoint", "6"]);
    assert!(path.join("checkpoints/set-aside-step-00000012").is_dir());
    succeed(dir.path(), &["eval", name]);
}

#[test]
fn a_batch_larger_than_the_data_leaves_no_run_folder() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let more = ["--set", "train.batch=500"];
    refused(dir.path(), &tiny(&more), "120");
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn a_place_for_runs_that_cannot_be_is_refused_with_the_cause_before_data_is_drawn() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("file"), "").expect("written");
    for (place, cause) in [("file/runs", "directory"), ("/proc/runs", "No such file")] {
        let said = run(dir.path(), &tiny(&["--runs", place, "--set", "data.train_images=5000000"]));
        assert_eq!(said.code, 2, "{}", said.stderr);
        for words in ["cannot create", place, cause] {
            assert!(said.stderr.contains(words), "`{words}` is missing: {}", said.stderr);
        }
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    }
    let dry = run(dir.path(), &tiny(&["--runs", "file/runs", "--dry-run"]));
    assert_eq!((dry.code, dry.stdout.as_str()), (2, ""), "{}", dry.stderr);
    assert!(dry.stderr.contains("cannot create run folders in `file/runs`"), "{}", dry.stderr);
    succeed(dir.path(), &tiny(&["--runs", "new/runs", "--dry-run"]));
    assert!(!dir.path().join("new").exists());
    let long = format!("name={}", "a".repeat(300));
    refused(dir.path(), &["train", "--set", &long], "it must be 1 to 200 ASCII letters, digits");
}

#[test]
fn steps_that_no_run_reaches_still_have_a_page() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&["--set", "train.epochs=1"])).run_folder();
    let name = folder.to_str().expect("text");
    let path = dir.path().join(&folder).join("metrics.jsonl");
    let text = fs::read_to_string(&path).expect("metrics");
    let step = |step: &str| {
        format!("{{\"event\":\"step\",\"step\":{step},\"loss\":1.5,\"learning_rate\":1e308}}\n")
    };
    let odd = [step("1e308"), step("-1"), step("1.5"), step("18446744073709551615")].concat();
    let damaged = "\u{0}{\n[]\n3\nnull\n\"step\"\n{\"event\":\"epoch\",\"step\":\"<script>\"}\n";
    fs::write(&path, format!("{text}{odd}{damaged}")).expect("written");
    let said = succeed(dir.path(), &["report", name]);
    assert!(said.stderr.contains("metrics.jsonl is damaged"), "{}", said.stderr);
    let page = fs::read_to_string(path.with_file_name("report.html")).expect("a page");
    assert!(page.contains("<svg") && !page.contains("<script"), "{page}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_whose_name_is_no_utf_8_is_predicted_and_named() {
    use std::os::unix::ffi::OsStrExt;

    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&["--set", "train.epochs=1"])).run_folder();
    let name = std::ffi::OsStr::from_bytes(b"a\xff.png");
    image::RgbImage::new(4, 4).save(dir.path().join("a.png")).expect("written");
    fs::rename(dir.path().join("a.png"), dir.path().join(name)).expect("renamed");
    for json in [&["--json"][..], &[]] {
        let mut command = crate::command::updraft(dir.path(), &["predict"]);
        let output = command.arg(&folder).args(json).arg(name).output().expect("it starts");
        let said = crate::command::said(output);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(said.stdout.contains("a\u{fffd}.png"), "{}", said.stdout);
    }
}

/// Output that cannot be written is an error of the command.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&["--set", "train.epochs=1"])).run_folder();
    let name = folder.to_str().expect("text");
    for arguments in
        [&["explain"][..], &["tasks"], &["--help"], &["eval", name], &["eval", name, "--json"]]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let mut command = crate::command::updraft(dir.path(), arguments);
        let output = command.stdout(full).output().expect("the binary starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("cannot write `standard output`"), "{said}");
    }
}

#[test]
fn a_number_of_threads_that_no_machine_has_is_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut command = crate::command::updraft(dir.path(), &["explain"]);
    let output = command.env("RAYON_NUM_THREADS", "100000").output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("RAYON_NUM_THREADS is 100000; it must be 0, for"), "{said}");
}

#[cfg(not(feature = "mpi"))]
#[test]
fn a_rank_of_several_is_refused_by_a_program_without_mpi() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let started = |rank: &str, size: &str| {
        let mut command = crate::command::updraft(dir.path(), &["train"]);
        command.env("OMPI_COMM_WORLD_RANK", rank).env("OMPI_COMM_WORLD_SIZE", size);
        let output = command.output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = started("0", "2");
    assert!(said.contains("one of 2 ranks, and this program was built without MPI"), "{said}");
    let said = started("x", "2");
    assert!(said.contains("`OMPI_COMM_WORLD_RANK` is `x`; it must be a number"), "{said}");
    assert!(!dir.path().join("runs").exists(), "no run was made");
}
