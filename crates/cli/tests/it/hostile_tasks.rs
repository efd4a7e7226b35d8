//! Bad input of the tasks of images and of tables with several targets, and what every task does
//! with a model that diverged.

use std::fs;
use std::path::Path;

use updraft_data::{CellsConfig, write_cells};
use updraft_run::TASKS;

use crate::command::{run, succeed};

/// Settings of image-to-image that are refused, each with a part of the message.
pub(crate) const IMAGES: &[(&str, &str)] = &[
    ("data.target=video", "`data.target` is "),
    ("data.target=3", "`data.target` is 3"),
    ("data.manifest=''", "`data.manifest` is "),
    ("data.test_fraction=0", "`data.test_fraction` is 0"),
    ("data.test_fraction=nan", "`data.test_fraction` is nan"),
    ("data.pages=rows", "`data.pages` is "),
    ("data.classes=1", "`data.classes` is 1"),
    ("data.classes=4097", "`data.classes` is 4097"),
    ("data.classes=-2", "`data.classes` is -2"),
    ("data.labels=many", "`data.labels` is "),
    ("data.patch=[16]", "`data.patch` is "),
    ("data.patch=[16, 0]", "`data.patch` is "),
    ("data.patch=[16, 99999]", "`data.patch` is "),
    ("data.patch=[1,1,1,1]", "`data.patch` is "),
    ("data.patch=16", "`data.patch` is 16"),
    ("data.patches=0", "`data.patches` is 0"),
    ("data.patches=99999999999", "`data.patches` is 99999999999"),
    ("data.foreground={share=2}", "`data.foreground.share` is 2"),
    ("data.foreground={share=nan}", "`data.foreground.share` is "),
    ("data.scale=loud", "`data.scale` is "),
    ("data.scale={kind='percentile',low=60,high=50}", "`data.scale.high` is 50"),
    ("data.scale={kind='percentile',low=nan,high=50}", "`data.scale.low` is "),
    ("data.memory_mib=99999999999", "`data.memory_mib` is 99999999999"),
    ("data.memory_mib=-1", "it must be a whole number, 0 to 1048576"),
    ("data.noise=-1", "`data.noise` is not read beside `data.target = "),
    ("data.sides=[4, 4]", "`data.sides` is "),
    ("data.sides=[32, 99999]", "`data.sides` is "),
    ("data.sides=[1024, 1024, 1024]", "`data.sides` is "),
    ("data.train_fields=0", "`data.train_fields` is 0"),
    ("data.train_fields=99999", "`data.train_fields` is 99999"),
    ("data.test_fields=0", "`data.test_fields` is 0"),
    ("model.kind=vae", "`model.kind` is "),
    ("model.filters=[]", "`model.filters` is []; it must be a list of 2 to "),
    ("model.filters=[2]", "`model.filters` is [2]; it must be a list of 2 to "),
    ("model.filters=[0, 4]", "filters in each level"),
    ("model.filters=[2, 99999999]", "filters in each level"),
    ("model.filters=[2,4,8,16,32,64,128,256]", "multiples of 128"),
    ("model.block=brick", "`model.block` is "),
    ("model.normalization=layer", "`model.normalization` is "),
    ("model.normalization=group", "multiples of `model.groups`, which is 8"),
    ("model.groups=0", "`model.groups` is not read beside `model.normalization = "),
    ("model.downsampling=skip", "`model.downsampling` is "),
    ("model.upsampling=cubic", "`model.upsampling` is "),
    ("model.negative_slope=1", "`model.negative_slope` is 1"),
    ("model.negative_slope=nan", "`model.negative_slope` is nan"),
    ("model.deep_supervision=9", "`model.deep_supervision` is 9; it must be at most "),
    ("model.activation=relu", "`model.activation` is "),
    ("model.widths=[8, 4, 4]", "`model.widths` is not read beside"),
    ("model={kind='dual-autoencoder'}", "an autoencoder returns images"),
    ("augment.flip=3", "`augment.flip` is 3"),
    ("augment.intensity={scale=2}", "`augment.intensity.scale` is 2"),
    ("augment.noise={std=-1}", "`augment.noise.std` is -1"),
    ("augment.noise={std=inf}", "`augment.noise.std` is "),
    ("augment.elastic={max_pixels=-1,grid_pixels=8}", "`augment.elastic.max_pixels` is -1"),
    ("augment.elastic={max_pixels=1,grid_pixels=0}", "`augment.elastic.grid_pixels` is 0"),
    ("train.loss={kind='tversky',alpha=-1,beta=1}", "`train.loss.alpha` is -1"),
    ("train.loss={kind='tversky',alpha=nan,beta=1}", "`train.loss.alpha` is "),
    ("train.loss={kind='huber',delta=0}", "`train.loss.delta` is 0"),
    ("train.loss=mean-squared-error", "`train.loss` is "),
    ("train.criterion=test-accuracy", "`train.criterion` is "),
];

/// The same of masked images, whose crops are 16 × 16 in tokens of 4 × 4.
pub(crate) const MASKED: &[(&str, &str)] = &[
    ("model.mask_ratio=0", "it leaves 16 of 16 visible"),
    ("model.mask_ratio=1", "it leaves 0 of 16 visible"),
    ("model.mask_ratio=0.99", "it leaves 0 of 16 visible"),
    ("model.mask_ratio=nan", "`model.mask_ratio` is "),
    ("model.mask_ratio=half", "`model.mask_ratio` is "),
    ("data.patch=[16, 18]", "the nearest are 16 and 20"),
    ("model.patch=[5, 4]", "the height of an image is 16"),
    ("model.patch=[32, 4]", "the nearest are 32"),
    ("model.patch=[4]", "`model.patch` is [4]"),
    ("model.patch=[0, 4]", "`model.patch` is [0, 4]"),
    ("model.heads=3", "`model.heads` is 3"),
    ("model.heads=0", "`model.heads` is 0"),
    ("model.embedding=2", "`model.embedding` is 2"),
    ("model.layers=1000", "`model.layers` is 1000"),
    ("model.decoder.heads=5", "`model.decoder.heads` is 5"),
    ("model.decoder.kind=none", "`model.decoder.kind` is "),
    ("model.decoder.width=5", "model.decoder.width"),
    ("model.positions=rotary", "`model.positions` is "),
    ("model.target=tokens", "`model.target` is "),
    ("train.optimizer={kind='adamw',betas=[0.9,1.0]}", "`train.optimizer.betas` is [0.9, 1.0]"),
];

/// The same of tables.
pub(crate) const TABLES: &[(&str, &str)] = &[
    ("data.source=web", "`data.source` is "),
    ("data.train_rows=9", "`data.train_rows` is 9"),
    ("data.train_rows=99999999999", "`data.train_rows` is 99999999999"),
    ("data.test_rows=0", "`data.test_rows` is 0"),
    ("data.features=[]", "`data.features` is "),
    ("data.features=['a','a']", "`data.features` is "),
    ("data.leave_out=['a','a']", "`data.leave_out` is "),
    ("data.numbers=3", "`data.numbers` is 3"),
    ("data.lists={a='ab'}", "`data.lists.a` is "),
    ("data.test_fraction=0.5", "`data.test_fraction` is not read beside `data.source = "),
    ("data.folds=5", "`data.folds` is not read beside `data.source = "),
    ("data.fold=2", "`data.fold` is not read beside `data.source = "),
    ("data.group=drug", "`data.group` is not read beside `data.source = "),
    ("data.stratify=effect", "`data.stratify` is not read beside `data.source = "),
    ("data.validation_fraction=1", "`data.validation_fraction` is 1"),
    ("data.validation_fraction=nan", "`data.validation_fraction` is nan"),
    ("data.importance_rows=-1", "`data.importance_rows` is -1"),
    ("data.min_rows=0", "`data.min_rows` is 0"),
    ("data.min_rows=-1", "`data.min_rows` is -1"),
    ("data.scaling=log", "`data.scaling` is "),
    ("data.encoding=words", "`data.encoding` is "),
    ("data.unknown_share=1", "`data.unknown_share` is 1"),
    ("data.unknown_share=nan", "`data.unknown_share` is nan"),
    ("targets={}", "`targets` is "),
    ("targets={a={kind='word'}}", "`targets.a.kind` is \"word\"; it must be one of `number`, "),
    ("targets={a=3}", "`targets.a` is 3; it must be a table with `kind`: one of `number`, "),
    ("targets={a={kind='classes',weight=true}}", "`targets.a.weight` is true; it must be a number"),
    ("targets={a={kind='classes',loss=[0]}}", "`targets.a.loss` is [0]; it must be a table with "),
    ("targets={a={kind='classes',loss='huber'}}", "must be a table with `kind`: one of `mean-"),
    ("targets={a={kind='classes',missing={}}}", "`targets.a.missing` is a table; it must be "),
    ("targets={a={kind='classes',foo=1}}", "unknown key `targets.a.foo`; known here are `classes`"),
    (
        "targets={a={kind='classes',loss={kind='focal',gam=1}}}",
        "unknown key `targets.a.loss.gam`; did you mean `targets.a.loss.gamma`?",
    ),
    (
        "targets={a={kind='classes',loss={kind='focal',beta=1}}}",
        "`targets.a.loss.beta` is not read beside `targets.a.loss.kind = \"focal\"`",
    ),
    (
        "targets={a={kind='number'}}",
        "`targets.a` is given; it must be one of the generated columns",
    ),
    ("data.features=['zz']", "`data.features` is [\"zz\"]; it must be columns of the generated "),
    ("data.leave_out=['zz']", "`data.leave_out` is [\"zz\"]; it must be columns of the generated "),
    ("data.numbers=['zz']", "`data.numbers` is [\"zz\"]; it must be columns of the generated "),
    ("data.categories=['zz']", "`data.categories` is [\"zz\"]; it must be columns of the "),
    ("data.lists={zz=','}", "`data.lists` is { zz = \",\" }; it must be columns of the generated "),
    ("data.replace={zz={a='b'}}", "`data.replace` is "),
    ("train.batch=100000", "`train.batch` is 100000; it must be at most 96, which is `data."),
    ("train.batch=99999999999", "`train.batch` is 99999999999; it must be at most 16777216"),
    ("targets={a={kind='number',weight=0}}", "`targets.a.weight` is 0"),
    ("targets={a={kind='number',weight=nan}}", "`targets.a.weight` is "),
    ("targets={a={kind='number',classes=['x','y']}}", "`targets.a.classes` is "),
    ("targets={a={kind='number',separator=','}}", "`targets.a.separator` is "),
    ("targets={a={kind='ordered',classes=['x']}}", "`targets.a.classes` is "),
    ("targets={a={kind='ordered',classes=['x','x']}}", "`targets.a.classes` is "),
    ("targets={a={kind='labels',missing='skip'}}", "`targets.a.missing` is "),
    ("targets={a={kind='number'},A={kind='number'}}", "whose names differ"),
    ("targets={'---'={kind='number'}}", "whose names differ"),
    ("targets={a={kind='number',loss={kind='huber',delta=0}}}", "`targets.a.loss` is "),
    ("targets={a={kind='number',loss={kind='quantile',quantiles=[2]}}}", "`targets.a.loss` is "),
    ("targets={a={kind='classes',loss={kind='focal',gamma=1e30}}}", "`targets.a.loss` is "),
    ("targets={a={kind='classes',loss={kind='mean-squared-error'}}}", "`targets.a.loss` is "),
    ("train.target_weights=mine", "`train.target_weights` is "),
    ("model.kind=forest", "`model.kind` is "),
    ("model.embedding=0", "`model.embedding` is 0"),
    ("model.frequencies=1025", "`model.frequencies` is 1025"),
    ("model.hidden=0", "`model.hidden` is 0"),
    ("model.hidden=99999", "`model.hidden` is 99999"),
    ("model.hidden=wide", "`model.hidden` is "),
    ("model.hidden=[8,0]", "`model.hidden` is "),
    ("model.layers=65", "`model.layers` is 65"),
    ("model.dropout=1", "`model.dropout` is 1"),
    ("model.dropout=nan", "`model.dropout` is nan"),
];

fn refused(dir: &Path, arguments: &[&str], words: &str) -> Option<String> {
    let said = run(dir, arguments);
    let is_refused = said.code == 2 && said.stderr.contains(words);
    (!is_refused).then(|| format!("{arguments:?}: `{words}`: {} {}", said.code, said.stderr))
}

/// Writes the trial of a task as `c.toml`.
fn trial(dir: &Path, task: &str) {
    let kind = TASKS.iter().find(|kind| kind.name() == task).expect("a task");
    fs::write(dir.join("c.toml"), kind.trial()).expect("written");
}

#[test]
fn every_kind_of_bad_table_with_several_targets_is_refused_with_its_place() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let text = "task = \"tables\"\n[data]\nsource = \"files\"\nfiles = [\"a.csv\"]\n\
                [targets]\ny = { kind = \"number\" }\nc = { kind = \"classes\" }\n\
                [train]\nepochs = 1\nbatch = 4\n[model]\nhidden = 4\n";
    fs::write(dir.path().join("c.toml"), text).expect("written");
    let rows = |row: &str| {
        let class = |at: usize| if at.is_multiple_of(2) { "a" } else { "b" };
        let rows: String = (0..40).map(|at| format!("{at},{at},{}\n", class(at))).collect();
        format!("x,y,c\n{rows}{row}\n")
    };
    let mut faults = Vec::new();
    for (table, words) in [
        (String::new(), "`./a.csv` has no records"),
        ("x,y,c\n".to_owned(), "`./a.csv` has no records"),
        (
            "x,y\n1,2\n".to_owned(),
            "a column of `./a.csv`, which has no column `c`; it has `x`, `y`",
        ),
        ("x,y,y\n1,2,3\n".to_owned(), "two columns `y`"),
        (rows("1,2"), "line 42 has 2 fields"),
        (rows("1,2,a,4"), "line 42 has 4 fields"),
        (rows("1,word,a"), "line 42, column `y`"),
        (rows("1,inf,a"), "line 42, column `y`"),
        (rows("1,,a"), "column `y`: the target is missing"),
        (rows("1,2,"), "column `c`: the target is missing"),
        (rows("1,1e300,a"), "line 42, column `y`: 1e300 is beyond what f32 holds"),
        (format!("x,y,c\n\"{}", "a".repeat(17 << 20)), "a record has more than 16 MiB"),
        ("x,y,c\n1,2,a\n".to_owned(), "rows"),
        (rows("1,2,a").replace(",b\n", ",a\n"), "nothing to learn"),
        ("y,c\n1,a\n2,b\n3,a\n4,b\n5,a\n6,b\n".to_owned(), "nothing to predict from"),
        // Quotes.
        (
            rows("1,2,\"a"),
            "`./a.csv` line 42 is not a record: a field begins with a quote that is not closed \
             before the end of the file; close it or remove it",
        ),
        (
            rows("1,\"2\" ,a"),
            "`./a.csv` line 42 is not a record: text follows the closing quote of a field; write \
             a quote inside a field as two",
        ),
        ("\u{feff}\"x,y,c\n1,2,a\n".to_owned(), "`./a.csv` line 1 is not a record: a field begins"),
        // A column without a value.
        (
            rows("1,2,a")
                .replace("y,c\n", "y,c,z\n")
                .replace("a\n", "a,\n")
                .replace("b\n", "b,?\n"),
            "the column `z` has no value in any training row; leave it out with `data.leave_out`",
        ),
        (
            rows("1,2,a").replace(",a\n", ",\n").replace(",b\n", ",?\n"),
            "the target `c` is missing in every training row",
        ),
    ] {
        fs::write(dir.path().join("a.csv"), table).expect("written");
        faults.extend(refused(dir.path(), &["train", "c.toml", "--data", "."], words));
    }
    // Encodings: a part of the file, and the whole.
    let latin = |text: &str| text.chars().map(|letter| letter as u8).collect::<Vec<u8>>();
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for (table, words) in [
        (
            latin(&rows("1,2,caf\u{e9}")),
            "`./a.csv` line 42, column `c`: not UTF-8; save the file as UTF-8",
        ),
        (latin("x,y,caf\u{e9}\n1,2,a\n"), "line 1, column `number 3`: not UTF-8; save the file as"),
        (utf16(&rows("1,2,a")), "`./a.csv` is encoded as UTF-16; save it as UTF-8, such as with"),
        (
            utf16(&format!("\u{feff}{}", rows("1,2,a"))),
            "`./a.csv` is encoded as UTF-16; save it as UTF-8",
        ),
        (b"\x1f\x8bno gzip file".to_vec(), "`./a.csv` is not an intact gzip file: "),
    ] {
        fs::write(dir.path().join("a.csv"), table).expect("written");
        faults.extend(refused(dir.path(), &["train", "c.toml", "--data", "."], words));
    }
    fs::write(dir.path().join("a.csv"), rows("20,20,a")).expect("written");
    for (set, words) in [
        ("data.files=['a.csv','./a.csv']", "are the same"),
        ("data.test_files=['./a.csv']", "are the same"),
        ("data.test_files=['a.csv']", "`data.test_files` is "),
    ] {
        let arguments = ["train", "c.toml", "--data", ".", "--set", set];
        faults.extend(refused(dir.path(), &arguments, words));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn a_model_that_no_machine_holds_is_refused_before_it_is_made() {
    let dir = tempfile::tempdir().expect("temporary folder");
    trial(dir.path(), "tables");
    let sizes = ["--set", "model.hidden=65536", "--set", "model.layers=64"];
    let fault =
        refused(dir.path(), &[&["train", "c.toml"][..], &sizes].concat(), "parameters, which");
    assert_eq!(fault, None);
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn other_rows_and_other_volumes_than_those_of_the_run_are_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (name, seed, class) in [("own", 1, "b"), ("other", 2, "z")] {
        let folder = dir.path().join(name);
        let cells = CellsConfig { sides: vec![32, 32], seed };
        write_cells(&folder, &cells, 3, 1, &mut |_| {}).expect("written");
        let row = |at: usize| format!("{at},{}\n", if at.is_multiple_of(2) { "a" } else { class });
        let rows: String = (0..40).map(row).collect();
        fs::write(folder.join("a.csv"), format!("x,c\n{rows}")).expect("written");
    }
    let tables = "task = \"tables\"\n[data]\nsource = \"files\"\nfiles = [\"a.csv\"]\n\
                  [targets]\nc = { kind = \"classes\" }\n[train]\nepochs = 1\nbatch = 4\n\
                  [model]\nhidden = 4\n";
    let images = "task = \"image-to-image\"\n[data]\nmanifest = \"segmentation.csv\"\n\
                  patch = [16, 16]\npatches = 4\n[model]\nfilters = [2, 4]\n\
                  [train]\nepochs = 1\nbatch = 4\n";
    for (config, words) in [(tables, "`c`"), (images, "its volumes")] {
        fs::write(dir.path().join("c.toml"), config).expect("written");
        let folder = succeed(dir.path(), &["train", "c.toml", "--data", "own"]).run_folder();
        let name = folder.to_str().expect("text");
        succeed(dir.path(), &["eval", name]);
        for arguments in [&["eval", name][..], &["train", "--resume", name]] {
            let said = run(dir.path(), &[arguments, &["--data", "other"]].concat());
            assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{arguments:?}");
            for word in ["is not what the run", words, "--data"] {
                assert!(said.stderr.contains(word), "{arguments:?}: {word}: {}", said.stderr);
            }
        }
    }
}

#[test]
fn a_model_of_numbers_that_are_not_finite_is_neither_scored_nor_used() {
    for kind in TASKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        trial(dir.path(), kind.name());
        let mut arguments = vec!["train", "c.toml"];
        for set in [
            "train.learning_rate=1e30",
            "train.schedule={kind='constant'}",
            "train.optimizer={kind='sgd',momentum=0.0}",
            "train.non_finite={kind='ignore'}",
        ] {
            arguments.extend(["--set", set]);
        }
        let folder = succeed(dir.path(), &arguments).run_folder();
        let name = folder.to_str().expect("text");
        fs::write(dir.path().join("a.csv"), "x1,x2\n1,2\n").expect("written");
        let is_image = ["image-to-image", "masked-images"].contains(&kind.name());
        let out = if is_image { &["--out", "o.tif"][..] } else { &[] };
        for arguments in [
            &["eval", name][..],
            &[&["predict", name, "a.csv"], out].concat(),
            &[&["predict", name, "--json", "a.csv"], out].concat(),
        ] {
            let said = run(dir.path(), arguments);
            let shown = format!("{} {arguments:?}: {}", kind.name(), said.stderr);
            assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{shown}");
            assert!(said.stderr.contains("is not finite"), "{shown}");
            assert!(said.stderr.contains("--checkpoint STEP"), "{shown}");
        }
    }
}

#[test]
fn names_of_columns_and_files_reach_neither_the_terminal_nor_the_page_as_they_are() {
    let dir = tempfile::tempdir().expect("temporary folder");
    // A class clears the screen, a column is an element of a page that would run.
    let (class, column) = ("\u{1b}[2J\u{9b}31m\u{202e}", "<script>alert(1)</script>");
    let row = |at: usize| {
        let class = if at.is_multiple_of(2) { "a" } else { class };
        format!("{at},{at},{class}\n")
    };
    let rows: String = (0..40).map(row).collect();
    fs::write(dir.path().join("a.csv"), format!("{column},y,c\n{rows}")).expect("written");
    let text = format!(
        "task = \"tables\"\n[data]\nsource = \"files\"\nfiles = [\"a.csv\"]\n\
         [targets]\nc = {{ kind = \"classes\" }}\n'{column}' = {{ kind = \"number\" }}\n\
         [train]\nepochs = 1\nbatch = 4\n[model]\nhidden = 4\n"
    );
    fs::write(dir.path().join("c.toml"), text).expect("written");
    let trained = succeed(dir.path(), &["train", "c.toml", "--data", "."]);
    let folder = trained.run_folder();
    let name = folder.to_str().expect("text");
    let predicted = succeed(dir.path(), &["predict", name, "a.csv"]);
    let as_json = succeed(dir.path(), &["predict", name, "--json", "a.csv"]);
    let reported = succeed(dir.path(), &["report", name]);
    // A file whose name begins with a dash is an unknown flag.
    let flag = run(dir.path(), &["predict", name, "-\u{1b}]0;title\u{7}.csv"]);
    assert_eq!(flag.code, 2, "{}", flag.stderr);
    let is_active = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
    for said in [&trained, &predicted, &as_json, &reported, &flag] {
        for text in [&said.stdout, &said.stderr] {
            assert!(!text.chars().any(is_active), "{text:?}");
        }
    }
    for line in as_json.stdout.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(value["sample"].is_string(), "{line}");
    }
    let page = fs::read_to_string(dir.path().join(&folder).join("report.html")).expect("a page");
    assert!(!page.contains("<script"), "a name is an element of the page");
    assert!(!page.chars().any(is_active), "a name controls what shows the page");
    assert!(page.contains("default-src 'none'"), "the page has no policy");
}
