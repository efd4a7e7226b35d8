//! Keys of a configuration: an error names the key that was written and one requirement.
// tidy: long because it has a table of all settings that are refused

use std::fs;
use std::path::Path;

use crate::command::{TASKS, config, run, with_sets};

/// The error of `explain` for a configuration with these settings.
fn error(dir: &Path, config: &str, sets: &[&str]) -> String {
    let said = run(dir, &with_sets(&["explain", config], sets));
    assert_eq!(said.code, 2, "{sets:?}: {}{}", said.stdout, said.stderr);
    let line = said.stderr.trim_end();
    assert!(!line.contains('\n'), "{sets:?}: more than a line: {line}");
    line.strip_prefix("error: ").expect("an error").to_owned()
}

const IMAGES: &str = "quickstart.toml";
const TABLE: &str = "kan-quickstart.toml";

/// A setting that is refused, with the whole error of it.
const REFUSED: &[(&str, &str, &str)] = &[
    (IMAGES, "train.epochs=0", "`train.epochs` is 0; it must be at least 1"),
    (TABLE, "train.epochs=0", "`train.epochs` is 0; it must be at least 1"),
    (IMAGES, "train.epochs=1.5", "`train.epochs` is 1.5; it must be a whole number, at least 1"),
    (
        IMAGES,
        "train.epochs=many",
        "`train.epochs` is \"many\"; it must be a whole number, at least 1",
    ),
    (
        IMAGES,
        "train.batch=1",
        "`train.batch` is 1; it must be at least 2: batch norms need a variance",
    ),
    (
        IMAGES,
        "train.batch=0",
        "`train.batch` is 0; it must be at least 2: batch norms need a variance",
    ),
    (TABLE, "train.batch=0", "`train.batch` is 0; it must be at least 1"),
    (IMAGES, "train.ema_decay=1.0", "`train.ema_decay` is 1.0; it must be at least 0 and below 1"),
    (
        TABLE,
        "train.learning_rate=-1.0",
        "`train.learning_rate` is -1.0; it must be a number above 0 in the range of f32, 1.2e-38 \
         to 3.4e38",
    ),
    (
        TABLE,
        "train.learning_rate=1e-310",
        "`train.learning_rate` is 1e-310; it must be a number above 0 in the range of f32, 1.2e-38 \
         to 3.4e38",
    ),
    (
        IMAGES,
        "train.clip_norm=0.0",
        "`train.clip_norm` is 0.0; it must be a finite number above 0 in the range of f32, 1.2e-38 to \
         3.4e38",
    ),
    (
        IMAGES,
        "train.optimizer={kind=\"adamw\", weight_decay=-1.0}",
        "`train.optimizer.weight_decay` is -1; it must be a finite number of at least 0",
    ),
    (
        IMAGES,
        "train.optimizer={kind=\"adamax\"}",
        "`train.optimizer.kind` is \"adamax\"; it must be one of `adamw`, `adam`, `sgd`",
    ),
    (
        TABLE,
        "train.schedule={kind=\"step\", every_steps=3, factor=\"half\"}",
        "`train.schedule.factor` is \"half\"; it must be a number",
    ),
    (
        IMAGES,
        "train.schedule={kind=\"step\", drop=0.5}",
        "`train.schedule.drop` is not read beside `train.schedule.kind = \"step\"`; leave it out or \
         change that",
    ),
    (
        IMAGES,
        "train.early_stop={patience=0}",
        "`train.early_stop.patience` is 0; it must be at least 1 epoch",
    ),
    (
        IMAGES,
        "train.auto_batch={least=1}",
        "`train.auto_batch.least` is 1; it must be at least 2: batch norms need a variance",
    ),
    (
        TABLE,
        "train.auto_batch={head_room=1.0}",
        "`train.auto_batch.head_room` is 1; it must be at least 0 and below 1",
    ),
    (
        IMAGES,
        "train.auto_batch={lest=4}",
        "--set train.auto_batch={lest=4}: unknown key `train.auto_batch.lest`; did you mean \
         `train.auto_batch.least`?",
    ),
    (
        IMAGES,
        "train.loss_scale={kind=\"static\", scale=-8.0}",
        "`train.loss_scale.scale` is -8; it must be a finite number above 0 in the range of f32, \
         1.2e-38 to 3.4e38",
    ),
    (
        TABLE,
        "train.criterion=test-accuracy",
        "`train.criterion` is `test-accuracy`; it must be one of `test-loss`, `test-y-mae`, \
         `test-y-rmse`, `test-y-r-squared`, `train-loss`, `train-y-mae`, `train-y-rmse`, \
         `train-y-r-squared`",
    ),
    (
        IMAGES,
        "train.early_stop={patience=2, metric='test-dice'}",
        "`train.early_stop.metric` is `test-dice`; it must be one of `test-loss`, \
         `test-accuracy`, `train-loss`, `train-accuracy`",
    ),
    (
        IMAGES,
        "train.keep_best_metric='test-dice'",
        "`train.keep_best_metric` is `test-dice`; it must be one of `test-loss`, \
         `test-accuracy`, `train-loss`, `train-accuracy`",
    ),
    (
        IMAGES,
        "train.criterion=test-rmse",
        "`train.criterion` is `test-rmse`; it must be one of `test-loss`, `test-accuracy`, \
         `train-loss`, `train-accuracy`",
    ),
    (
        TABLE,
        "train.recompute_batch_norms=all",
        "`train.recompute_batch_norms` is \"all\"; it must be left out with task \
         `tables`: its model has no batch norms",
    ),
    (
        IMAGES,
        "train.workers=300",
        "`train.workers` is 300; it must be `auto` or a whole number from 0 to 256",
    ),
    (IMAGES, "train.keep_checkpoints=0", "`train.keep_checkpoints` is 0; it must be at least 1"),
    (
        IMAGES,
        "train=3",
        "--set train=3: `train` is 3; it must be a table, such as `[train]` with keys below it",
    ),
    (
        IMAGES,
        "name=../x",
        "`name` is \"../x\"; it must be 1 to 200 ASCII letters, digits, `-` and `_`: it names a folder",
    ),
    (
        IMAGES,
        "train.optimizer=sgd",
        "`train.optimizer` is \"sgd\"; it must be a table with `kind`: one of `adamw`, `adam`, `sgd`",
    ),
    (
        IMAGES,
        "model.integration_points=[\"all\", \"early\"]",
        "`model.integration_points` is [\"all\", \"early\"]; it must be a list of `early`, \
         `middle` and `late`, none of them twice, or of `all` alone",
    ),
    (
        IMAGES,
        "model.gate={kind=\"adaptive\"}",
        "`model.gate` is a table; it must be `static` or `adaptive`",
    ),
    (
        IMAGES,
        "seed=18446744073709551615",
        "`seed` is 18446744073709551615; it must be a whole number of at most 9223372036854775807, \
         or a text in quotes",
    ),
    (IMAGES, "log.csv=yes", "`log.csv` is \"yes\"; it must be `true` or `false`"),
    (
        IMAGES,
        "data.height=4",
        "`data.height` is 4; it must be 16 to 1024 pixels, for generated images",
    ),
    (
        IMAGES,
        "data.train_images=10",
        "`data.train_images` is 10; it must be at least one per class, 16",
    ),
    (TABLE, "data.train_rows=3", "`data.train_rows` is 3; it must be 10 to 10000000 rows"),
    (
        IMAGES,
        "data.width=8",
        "`data.width` is 8; it must be 16 to 1024 pixels, for generated images",
    ),
    (
        IMAGES,
        "data.source=folder",
        "`data.source` is \"folder\"; it must be one of `generated`, `archives`, `folders`, \
         `manifest`, `cifar-10`, `cifar-100`",
    ),
    (
        IMAGES,
        "data.faults={kind=\"skip\", at_most=0}",
        "`data.faults.at_most` is 0; it must be at least 1",
    ),
    (
        IMAGES,
        "data.faults={kind=\"skip\"}",
        "`data.faults` is { kind = \"skip\" }; it must be a table with `at_most`",
    ),
    (
        IMAGES,
        "data.cache={kind=\"memory\", budget_mib=0}",
        "`data.cache.budget_mib` is 0; it must be 1 to 16777216",
    ),
    (
        IMAGES,
        "data.inflate_to=x",
        "`data.inflate_to` is not read beside `data.source = \"generated\"`; leave it out or \
         change that",
    ),
    (IMAGES, "model.channels=1000000000", "`model.channels` is 1000000000; it must be 1 to "),
    (IMAGES, "model.dropout=1.0", "`model.dropout` is 1.0; it must be at least 0 and below 1"),
    (TABLE, "model.degree=16", "`model.degree` is 16; it must be 0 to 15"),
    (TABLE, "model.domain=0.0", "`model.domain` is 0.0; it must be a finite number above 0"),
    (
        TABLE,
        "model.hidden=[0]",
        "`model.hidden` is [0]; it must be a number from 1 to 65536, or a list of at most 64 such \
         numbers",
    ),
    (
        IMAGES,
        "augment.zoom={min_factor=0.5, max_factor=20.0}",
        "`augment.zoom.max_factor` is 20; it must be 0.1 to 10",
    ),
    (IMAGES, "augment.rotate=500.0", "`augment.rotate` is 500; it must be 0 to 180"),
    (
        IMAGES,
        "augment.translate=9",
        "`augment.translate` is 9; it must be less than half of the image's shorter side",
    ),
    (
        IMAGES,
        "train.label_smoothing=1.5",
        "`train.label_smoothing` is 1.5; it must be at least 0 and below 1",
    ),
    (
        IMAGES,
        "train.loss={kind=\"focal\", gamma=-1.0}",
        "`train.loss.gamma` is -1; it must be from 0 to 100",
    ),
    (IMAGES, "precision=f12", "`precision` is \"f12\"; it must be `f32`, `bf16-products`, "),
    (TABLE, "precision=bf16", "`precision` is \"bf16\"; it must be one that can train: "),
    (IMAGES, "device=abacus", "`device` is \"abacus\"; it must be `auto`, "),
    (
        IMAGES,
        "device=\"cuda:0,cuda:1\"",
        "`device` is \"cuda:0,cuda:1\"; it must be one device, such as `cuda`: a process trains on \
         one, and `updraft launch -n N -- train CONFIG` starts a process for each of N devices",
    ),
    (
        IMAGES,
        "task=chess",
        "`task` is \"chess\"; it must be one of `image-classification`, `image-to-image`, \
         `masked-images`, `tables`",
    ),
];

#[test]
fn an_error_names_the_key_that_was_written_and_what_it_must_be() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut wrong = Vec::new();
    for (file, set, expected) in REFUSED {
        let found = error(dir.path(), &config(file), &[set]);
        let is_whole = found == *expected;
        // An end that is not written out here is the word of a crate below.
        let is_open = expected.ends_with(' ') && found.starts_with(expected);
        if !is_whole && !is_open {
            wrong.push(format!("{set}\n   found: {found}\nexpected: {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn an_error_names_file_and_line_where_the_key_stands_in_a_file() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("base.toml"), "[train]\nbatch = 0\n").expect("written");
    for (text, expected) in [
        ("[train]\nepochs = 0\n", "c.toml:2: `train.epochs` is 0; it must be at least 1"),
        ("train.epochs = 0\n", "c.toml:1: `train.epochs` is 0; it must be at least 1"),
        (
            "[train]\nepochs = 2\n\n[train.early_stop]\npatience = 0\n",
            "c.toml:5: `train.early_stop.patience` is 0; it must be at least 1 epoch",
        ),
        (
            "seed = 1\n[train]\nauto_batch = { lest = 4 }\n",
            "c.toml:3: unknown key `train.auto_batch.lest`; did you mean `train.auto_batch.least`?",
        ),
        (
            "[data]\nsource = \"generated\"\ninflate_to = \"x\"\n",
            "c.toml:3: `data.inflate_to` is not read beside `data.source = \"generated\"`; leave it \
             out or change that",
        ),
        (
            "[train]\nschedule = { kind = \"constant\", floor = 0.1 }\n",
            "c.toml:2: `train.schedule.floor` is not read beside `train.schedule.kind = \
             \"constant\"`; leave it out or change that",
        ),
        (
            "train = 3\n",
            "c.toml:1: `train` is 3; it must be a table, such as `[train]` with keys below it",
        ),
        (
            "task = \"chess\"\n",
            "c.toml:1: `task` is \"chess\"; it must be one of `image-classification`, \
             `image-to-image`, `masked-images`, `tables`",
        ),
        (
            "inherit = \"base.toml\"\n",
            "base.toml:2: `train.batch` is 0; it must be at least 2: batch norms need a variance",
        ),
        (
            "task = \"tables\"\ndata.source = \"formula\"\n[train]\n\
             criterion = \"test-accuracy\"\n",
            "c.toml:4: `train.criterion` is `test-accuracy`; it must be one of `test-loss`, \
             `test-y-mae`, `test-y-rmse`, `test-y-r-squared`, `train-loss`, `train-y-mae`, \
             `train-y-rmse`, `train-y-r-squared`",
        ),
    ] {
        fs::write(dir.path().join("c.toml"), text).expect("written");
        assert_eq!(error(dir.path(), "c.toml", &[]), expected, "{text}");
    }
    // Values of the command line are in no file.
    fs::write(dir.path().join("c.toml"), "[train]\nepochs = 3\n").expect("written");
    let found = error(dir.path(), "c.toml", &["train.epochs=0"]);
    assert_eq!(found, "`train.epochs` is 0; it must be at least 1");
}

#[test]
fn names_that_come_twice_or_are_missing_in_a_table_are_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let table = |data: &str| {
        let text = format!(
            "task = \"tables\"\ntargets = {{ y = {{ kind = \"number\" }} }}\n[data]\n\
             source = \"files\"\n{data}\n"
        );
        fs::write(dir.path().join("c.toml"), text).expect("written");
        error(dir.path(), "c.toml", &[])
    };
    for (data, expected) in [
        (
            "files = [\"a.csv\", \"a.csv\"]",
            "c.toml:5: `data.files` is [\"a.csv\", \"a.csv\"]; it must be a list of at least \
             one file, none of them twice",
        ),
        (
            "files = []",
            "c.toml:5: `data.files` is []; it must be a list of at least one file, none of \
             them twice",
        ),
        (
            "files = [\"a.csv\"]\nfeatures = [\"x\", \"z\", \"x\"]",
            "c.toml:6: `data.features` is [\"x\", \"z\", \"x\"]; it must be a list of at \
             least one column, none of them twice",
        ),
        (
            "files = \"a.csv\"",
            "c.toml:5: `data.files` is \"a.csv\"; it must be a list of at least one file, none of \
             them twice, such as [\"a.csv\"]",
        ),
        (
            "files = [\"a.csv\"]\nfeatures = [\"x\", \"y\"]",
            "c.toml:6: `data.features` is [\"x\", \"y\"]; it must be a list without `y`, which \
             is a target",
        ),
        (
            "files = [\"a.csv\"]\nfeatures = [\"x\"]\ncategories = [\"z\"]",
            "c.toml:7: `data.categories` is [\"z\"]; it must be columns of the features, and `z` \
             is none",
        ),
        (
            "files = [\"a.csv\"]\ncolumns = [\"x\", \"z\"]",
            "c.toml:6: `data.columns` is [\"x\", \"z\"]; it must be a list of all columns, with \
             the target `y`",
        ),
        ("", "`data.files` is missing; `data.source = \"files\"` needs it"),
    ] {
        assert_eq!(table(data), expected, "{data}");
    }
}

#[test]
fn every_key_of_the_table_is_known_and_no_other() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for small in &TASKS {
        let table = run(dir.path(), &["explain", "--keys", small.task]).stdout;
        let names = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let names: Vec<&str> = names.filter(|name| *name != "inherit").collect();
        assert!(names.len() > 30, "{table}");
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "`{name}` has two rows");
        }
        // Every key that a plan resolves has a row.
        let plan = run(dir.path(), &["explain", &config(small.config)]).stdout;
        // The continuation of a value below its key is indented.
        for line in plan.lines().filter(|line| !line.starts_with(' ')) {
            let key = line.split_whitespace().next().expect("a key");
            let is_named =
                names.iter().any(|name| key == *name || key.starts_with(&format!("{name}.")));
            assert!(is_named, "`{key}` has no row");
        }
        // A key without a row is untested.
        for section in ["data", "model", "train", "log"] {
            let unknown = format!("{section}.no_such_key=1");
            let found = error(dir.path(), &config(small.config), &[&unknown]);
            let start = format!("--set {unknown}: unknown key `{section}.no_such_key`; ");
            assert!(found.starts_with(&start), "{found}");
            let Some((_, list)) = found.split_once("known here are ") else { continue };
            let mut of_section: Vec<&str> = names
                .iter()
                .filter_map(|name| name.strip_prefix(section)?.strip_prefix('.'))
                // Keys inside a table are listed with the table.
                .filter(|name| !name.contains('.'))
                .collect();
            of_section.sort_unstable();
            assert_eq!(list, format!("`{}`", of_section.join("`, `")));
        }
    }
}
