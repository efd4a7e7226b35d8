//! The schema of the features: written by a run, edited, taken by another, and checked on every
//! file.

use std::fs;
use std::path::Path;

use updraft_run::{Opening, Plan, RunError, RunFolder, TrainedModel};
use updraft_trainer::Ending;

use crate::any_run::contents;
use crate::tables::{HEADER, MIXED, mixed, rows, with};
use crate::train::{Watcher, train, workload};

/// The plan of the rows of `mixed` without keys that a schema replaces.
fn by_schema(dir: &Path, schema: &str, sets: &[&str]) -> Plan {
    let path = dir.join("edited.toml");
    fs::write(&path, schema).expect("written");
    let own = format!("data.schema={}", path.display());
    let text = MIXED.replace("lists = { words = \";\" }\n", "");
    with(dir, &text, &[&[own.as_str()], sets].concat())
}

fn open(plan: &Plan, run: Option<&RunFolder>) -> Result<(), RunError> {
    let opening = Opening { dir: None, run, progress: &mut |_, _| {} };
    plan.task.open(plan, opening).map(drop)
}

fn schema_of(run: &RunFolder) -> String {
    fs::read_to_string(run.path().join("schema.toml")).expect("a schema")
}

#[test]
fn the_inferred_schema_is_taken_by_a_config_and_gives_the_same_run() {
    let (dir, plan) = mixed(&[], &rows(40, 1000));
    let inferred = train(&plan, dir.path(), None, &mut Watcher::default());
    let schema = schema_of(&inferred.folder);
    for expected in [
        "[[column]]\nname = \"size\"\nkind = \"number\"\nmissing = false\n",
        "[[column]]\n# 3 values\nname = \"color\"\nkind = \"category\"\nmissing = false\n\
         unknown = true\nvalues = [\"blue\", \"green\", \"red\"]\n",
        "[[column]]\n# 3 values\nname = \"words\"\nkind = \"list\"\nseparator = \";\"\nmissing = true\n\
         unknown = true\nvalues = [\"a\", \"b\", \"c\"]\n",
        "[[column]]\nname = \"gap\"\nkind = \"number\"\nmissing = true\n",
    ] {
        assert!(schema.contains(expected), "{schema}");
    }
    let plan = by_schema(dir.path(), &schema, &[]);
    assert!(plan.find_inputs(None).is_ok());
    let given = train(&plan, dir.path(), None, &mut Watcher::default());
    assert_eq!(schema_of(&given.folder), schema);
    let of_models = |run: &RunFolder| {
        let parts = contents(run).into_iter();
        parts.filter(|(name, _)| name.starts_with("model")).collect::<Vec<_>>()
    };
    assert!(of_models(&given.folder) == of_models(&inferred.folder), "the weights differ");
}

#[test]
fn the_kind_of_a_column_follows_from_its_last_training_row() {
    // The word is far behind the rows from which kinds are guessed.
    let late = "is no number, and 3200 of the 3201 values of the training rows are numbers; \
                correct it, add it to `data.missing` if it stands for a missing value, or name the \
                column in `data.categories`";
    for last in ["late", "2024-02-29"] {
        let (dir, plan) = mixed(&[], &rows(40, 1000));
        let text = format!("{HEADER}{}2,red,a,{last},3,yes,low,\n", rows(4000, 0));
        fs::write(dir.path().join("train.csv"), text).expect("written");
        let error = open(&plan, None).expect_err(last).to_string();
        let place = format!("train.csv` line 4002, column `gap`: `{last}` {late}");
        assert!(error.ends_with(&place), "{error}");
    }
    for (last, sets, kind) in [
        ("9", vec![], "number"),
        ("late", vec!["data.categories=[\"gap\"]"], "category"),
        ("late", vec!["data.missing=[\"?\", \"late\"]"], "number"),
        ("late", vec!["data.replace={gap = {late = \"7\"}}"], "number"),
    ] {
        let (dir, plan) = mixed(&[&["train.epochs=1"][..], &sets].concat(), &rows(40, 1000));
        let text = format!("{HEADER}{}2,red,a,{last},3,yes,low,\n", rows(4000, 0));
        fs::write(dir.path().join("train.csv"), text).expect("written");
        let trained = train(&plan, dir.path(), None, &mut Watcher::default());
        let schema = schema_of(&trained.folder);
        let gap = schema.split("[[column]]").find(|column| column.contains("\"gap\""));
        let gap = gap.expect("a column");
        assert!(gap.contains(&format!("kind = \"{kind}\"")), "{last} {sets:?}: {gap}");
    }
}

#[test]
fn an_edited_schema_decides_kinds_words_and_features() {
    let (dir, plan) = mixed(&[], &rows(40, 1000));
    let about = |plan: &Plan| workload(plan, None).about().data;
    assert!(about(&plan).contains("1 categories and 6 numbers"), "{}", about(&plan));
    // The gap is a category, one color and one word are unknown, and the size is no feature.
    let schema = "[[column]]\nname = \"gap\"\nkind = \"category\"\n\
                  [[column]]\nname = \"color\"\nkind = \"category\"\nvalues = [\"red\", \"blue\"]\n\
                  [[column]]\nname = \"words\"\nkind = \"list\"\nseparator = \";\"\n\
                  values = [\"a\", \"b\", \"z\"]\n";
    let plan = by_schema(dir.path(), schema, &["train.epochs=1"]);
    assert!(about(&plan).contains("2 categories and 2 numbers"), "{}", about(&plan));
    let run = train(&plan, dir.path(), None, &mut Watcher::default()).folder;
    let encoder = fs::read_to_string(run.path().join("encoder.json")).expect("a coding");
    let encoder: serde_json::Value = serde_json::from_str(&encoder).expect("JSON");
    assert_eq!(encoder["columns"][1]["vocabulary"], serde_json::json!(["blue", "red"]));
    assert_eq!(encoder["columns"][2]["vocabulary"], serde_json::json!(["a", "b"]));
}

/// A strict schema: no other color, and every size there.
const STRICT: &str = "[[column]]\nname = \"size\"\nkind = \"number\"\nmissing = false\n\
                      [[column]]\nname = \"color\"\nkind = \"category\"\n\
                      values = [\"red\", \"green\", \"blue\"]\nunknown = false\n";

#[test]
fn every_later_file_is_checked_against_the_schema_of_the_run() {
    let _alone = updraft_testing::alone();
    let (dir, _) = mixed(&[], &rows(40, 1000));
    let plan = by_schema(dir.path(), STRICT, &["train.epochs=2"]);
    let whole = train(&plan, dir.path(), None, &mut Watcher::default());
    let mut stops = Watcher { stop_after: Some(3), ..Watcher::default() };
    let stopped = train(&plan, dir.path(), None, &mut stops);
    assert_eq!(stopped.ending, Ending::Stopped);
    // A run has a copy: the file may be gone.
    fs::remove_file(dir.path().join("edited.toml")).expect("removed");
    assert!(plan.find_inputs(None).is_err() && open(&plan, None).is_err());
    let resumed = train(&plan, dir.path(), Some(stopped.folder), &mut Watcher::default());
    assert!(contents(&resumed.folder) == contents(&whole.folder), "the resumed run differs");

    let test = dir.path().join("test.csv");
    let model = TrainedModel::load(whole.folder.path(), "flex").expect("a run");
    for (row, expected) in [
        ("2,violet", "line 2, column `color`: `violet` is none of the values of the schema"),
        (",red", "line 2, column `size`: the value is missing, which the schema does not accept"),
        ("two,red", "line 2, column `size`: expected a finite number, got `two`; correct it"),
    ] {
        fs::write(&test, format!("{HEADER}{row},a,7,3,yes,low,large\n")).expect("written");
        let error = open(&plan, Some(&whole.folder)).expect_err(expected).to_string();
        assert!(error.contains(expected) && error.contains("test.csv"), "{error}");
        let new = dir.path().join("new.csv");
        fs::write(&new, format!("size,color\n{row}\n")).expect("written");
        let error = model.predict(&new).expect_err(expected);
        assert!(error.is_input() && error.to_string().contains(expected), "{error}");
    }
}

/// Without `data.schema`, too: the size is there in every row of the run.
#[test]
fn later_files_miss_no_values_that_every_row_of_a_run_has() {
    let _alone = updraft_testing::alone();
    let (dir, plan) = mixed(&[], &rows(40, 1000));
    let mut stops = Watcher { stop_after: Some(3), ..Watcher::default() };
    let run = train(&plan, dir.path(), None, &mut stops).folder;
    let schema = run.path().join("schema.toml");
    let new = dir.path().join("new.csv");
    fs::write(&new, "size,color,words,gap\n2,red,a,7\n,red,,?\n").expect("written");
    let predict = || TrainedModel::load(run.path(), "flex").and_then(|model| model.predict(&new));
    let refused = |file: &str| {
        format!(
            "{file}` line 3, column `size`: the value is missing, which the schema does not accept; \
             fill it in, or set `missing = true` for the column in `{}`",
            schema.display()
        )
    };
    let error = predict().expect_err("no size");
    assert!(error.is_input() && error.to_string().ends_with(&refused("new.csv")), "{error}");
    // `eval` and `train --resume` open the data of the run like this.
    let test = dir.path().join("test.csv");
    let text = format!("{HEADER}2,red,a,7,3,yes,low,large\n,red,,,3,yes,low,large\n");
    fs::write(&test, text).expect("written");
    let error = open(&plan, Some(&run)).expect_err("no size");
    assert!(error.is_input() && error.to_string().ends_with(&refused("test.csv")), "{error}");
    // A new run learns that it may be missing in rows that it does not learn from.
    let other = train(&plan, dir.path(), None, &mut Watcher::default()).folder;
    assert!(schema_of(&other).contains("name = \"size\"\nkind = \"number\"\nmissing = true"));
    assert!(open(&plan, Some(&other)).is_ok());

    let text = schema_of(&run);
    let accepts = "name = \"size\"\nkind = \"number\"\nmissing = ";
    let edited = text.replace(&format!("{accepts}false"), &format!("{accepts}true"));
    assert_ne!(edited, text);
    fs::write(&schema, edited).expect("written");
    assert_eq!(predict().expect("accepted").len(), 2);
    assert!(open(&plan, Some(&run)).is_ok());
}

/// What the network was trained on cannot be edited afterwards: names, order, kinds and known words.
#[test]
fn an_edit_of_a_runs_schema_that_would_change_nothing_is_refused() {
    let _alone = updraft_testing::alone();
    let (dir, plan) = mixed(&["train.epochs=1"], &rows(40, 1000));
    let run = train(&plan, dir.path(), None, &mut Watcher::default()).folder;
    let path = run.path().join("schema.toml");
    let text = schema_of(&run);
    let new = dir.path().join("new.csv");
    fs::write(&new, "size,color,words,gap\n2,red,a,7\n2,violet,a,7\n").expect("written");
    let predict = |text: &str| {
        fs::write(&path, text).expect("written");
        TrainedModel::load(run.path(), "flex").and_then(|model| model.predict(&new))
    };
    assert_eq!(predict(&text).expect("as it was").len(), 2);
    let columns: Vec<&str> = text.split("[[column]]").collect();
    let [header, first, rest @ ..] = &columns[..] else { panic!("{text}") };
    let without = format!("{header}[[column]]{}", rest.join("[[column]]"));
    let last = format!("{without}\n[[column]]{first}");
    let more = format!("{text}\n[[column]]\nname = \"more\"\nkind = \"number\"\n");
    let size = "name = \"size\"\nkind = ";
    for (edited, expected) in [
        (text.replace("name = \"size\"", "name = \"area\""), "it has no column `size`"),
        (
            text.replace("\"green\", \"red\"]", "\"green\", \"red\", \"z\"]"),
            "`values` of the column `color` changed (`z`)",
        ),
        (
            text.replace("values = [\"blue\", \"green\", \"red\"]\n", ""),
            "`values` of the column `color` changed (`blue`)",
        ),
        (
            text.replace("\"green\", \"red\"]", "\"green\", \"blue\"]"),
            "lists the value `blue` twice",
        ),
        (
            text.replace(&format!("{size}\"number\""), &format!("{size}\"date\"")),
            "the kind of the column `size` was `number`",
        ),
        (
            text.replace("separator = \";\"", "separator = \",\""),
            "the separator of the column `words` was ';'",
        ),
        (
            text.replace("[\"blue\", \"green\", \"red\"]", "[\"blue\", \"green\"]"),
            "`values` of the column `color` changed (`red`), which has an effect only with",
        ),
        (without, "it has no column `"),
        (last, "its columns are in another order"),
        (more, "it has a new column `more`"),
    ] {
        assert_ne!(edited, text, "{expected}");
        let error = predict(&edited).expect_err(expected).to_string();
        assert!(error.contains(expected) && error.contains("schema.toml"), "{error}");
        // As `eval` and `train --resume`.
        let error = open(&plan, Some(&run)).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    // What decides which values are accepted can.
    let edited =
        text.replace("unknown = true\nvalues = [\"blue\"", "unknown = false\nvalues = [\"blue\"");
    assert_ne!(edited, text);
    let error = predict(&edited).expect_err("no violet").to_string();
    assert!(error.contains("line 3, column `color`: `violet` is none of the values"), "{error}");
    // `eval` and `train --resume` check the same.
    assert!(open(&plan, Some(&run)).is_ok());
    let test = format!("{HEADER}2,violet,a,7,3,yes,low,large\n");
    fs::write(dir.path().join("test.csv"), test).expect("written");
    let error = open(&plan, Some(&run)).expect_err("no violet").to_string();
    let expected = "test.csv` line 2, column `color`: `violet` is none of the values of the schema";
    assert!(error.contains(expected) && error.contains("schema.toml"), "{error}");
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_with_its_file() {
    let (dir, _) = mixed(&[], &rows(40, 1000));
    for (schema, expected) in [
        ("[[column]]\nname = \"price\"\nkind = \"number\"\n", "`price` is a target"),
        ("[[column]]\nname = \"size\"\nkind = \"digits\"\n", "unknown variant `digits`"),
        ("column = 3\n", "invalid type"),
    ] {
        let plan = by_schema(dir.path(), schema, &[]);
        let error = plan.find_inputs(None).expect_err(expected);
        assert!(error.is_input(), "{error}");
        let error = error.to_string();
        assert!(error.contains(expected) && error.contains("edited.toml"), "{error}");
    }
    let plan = by_schema(dir.path(), "[[column]]\nname = \"colour\"\nkind = \"category\"\n", &[]);
    assert!(plan.find_inputs(None).is_ok());
    let error = open(&plan, None).expect_err("no such column").to_string();
    assert!(error.contains("`data.schema` is") && error.contains("no column `colour`"), "{error}");
    fs::remove_file(dir.path().join("edited.toml")).expect("removed");
    let error = plan.find_inputs(None).expect_err("no such file").to_string();
    assert!(error.contains("`data.schema`") && error.contains("edited.toml"), "{error}");
    // Keys that name columns one by one are not read beside it.
    for set in ["data.numbers=['size']", "data.lists={words=';'}", "data.features=['size']"] {
        let error = crate::plans::read_with(MIXED, &["data.schema=s.toml", set]);
        let error = error.map(drop).expect_err("refused").to_string();
        assert!(error.contains("is not read beside `data.schema"), "{error}");
    }
}

/// As the fuzz target `schema`, with a byte of a schema changed at a time.
#[test]
fn a_damaged_schema_is_read_or_refused() {
    let rows = "size,color,sold,day,tags,price\n1.5,red,yes,2024-02-29,a;b,1\n\
                2,blue,no,2023-01-01,,2\n?,red,yes,2022-12-31,b,3\n4,,no,?,a,4\n\
                5,green,yes,2021-07-01,c;a,5\n6,blue,no,2020-01-31,b,6\n";
    let config = "task = \"tables\"\n\
                  data = { source = \"files\", files = [\"rows.csv\"], test_fraction = 0.5 }\n\
                  targets = { price = { kind = \"number\" } }\nmodel = { hidden = 4 }\n\
                  train = { epochs = 1, batch = 1 }\n";
    let schema = b"[[column]]\nname = \"size\"\nkind = \"number\"\n\
                   [[column]]\nname = \"color\"\nkind = \"category\"\nvalues = [\"red\", \"blue\"]\n\
                   [[column]]\nname = \"sold\"\nkind = \"boolean\"\nmissing = false\n\
                   [[column]]\nname = \"day\"\nkind = \"date\"\n\
                   [[column]]\nname = \"tags\"\nkind = \"list\"\nseparator = \";\"\n";
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("rows.csv"), rows).expect("written");
    let path = dir.path().join("schema.toml");
    let own = format!("data.schema={}", path.display());
    let plan = with(dir.path(), config, &[&own]);
    let opened = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("written");
        open(&plan, None)
    };
    opened(schema).expect("the whole schema");
    let mut refused = 0;
    for at in 0..schema.len() {
        for byte in [b'"', b'x', b'0', 0xFF] {
            let mut bytes = schema.to_vec();
            bytes[at] = byte;
            refused += usize::from(opened(&bytes).is_err());
        }
        refused += usize::from(opened(&schema[..at]).is_err());
    }
    assert!(refused > schema.len(), "{refused}");
}
