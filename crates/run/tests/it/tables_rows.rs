//! Rows that a program has in memory, and their predictions as its own types.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use updraft_run::{Outcome, PredictedValue, TASKS, TrainedModel};

use crate::plans::read_with;
use crate::tables::{mixed, rows};
use crate::train::{Watcher, train};

#[derive(Serialize)]
struct Item {
    size: f64,
    color: Option<Color>,
    words: Vec<&'static str>,
    gap: Option<u32>,
    note: &'static str,
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Color {
    Red,
    Blue,
}

#[derive(Deserialize, Debug)]
struct Answer {
    price: f64,
    sold: Sold,
    grade: String,
    tags: Vec<String>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Sold {
    Yes,
    No,
}

#[test]
fn rows_of_a_program_are_predicted_as_those_of_a_file_and_read_as_its_types() {
    let _alone = updraft_testing::alone();
    let sets = ["train.epochs=60", "train.learning_rate=0.01", "model.dropout=0.0"];
    // The color is missing in a test row, so that it may be.
    let (dir, plan) = mixed(&sets, &format!("{}2,,a,7,3,no,low,\n", rows(60, 1000)));
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");
    let file = dir.path().join("new.csv");
    fs::write(&file, "size,color,words,gap\n2,red,a;b,7\n9,blue,,\n9.5,,c,1\n").expect("written");
    let of_file = model.predict(&file).expect("predicted");
    let item = |size, color, words, gap| Item { size, color, words, gap, note: "not a feature" };
    let items = [
        item(2.0, Some(Color::Red), vec!["a", "b"], Some(7)),
        item(9.0, Some(Color::Blue), vec![], None),
        item(9.5, None, vec!["c"], Some(1)),
    ];
    let predicted = model.predict_rows(&items).expect("predicted");
    for (row, of_file) in predicted.iter().zip(&of_file) {
        assert_eq!(Outcome::Targets(row.targets.clone()), of_file.outcome);
    }
    assert_eq!(predicted.len(), 3);

    let answers: Vec<Answer> =
        predicted.iter().map(|row| row.values().expect("the targets")).collect();
    assert_eq!((&answers[0].sold, &answers[1].sold), (&Sold::No, &Sold::Yes));
    assert_eq!((answers[0].grade.as_str(), answers[1].grade.as_str()), ("low", "high"));
    assert_eq!(answers[0].tags, ["warm"]);
    let price = predicted[1].get("price").and_then(PredictedValue::number).expect("a number");
    assert_eq!(answers[1].price, price);
    let sold = predicted[1].get("sold").expect("a target");
    assert_eq!(sold.class(), Some("yes"));
    let shares = ["yes", "no"].map(|class| sold.probability(class).expect("a class"));
    assert!((shares[0] + shares[1] - 1.0).abs() < 1e-6 && shares[0] > 0.5, "{shares:?}");
    let tags = predicted[0].get("tags").expect("a target");
    assert_eq!(tags.labels(), Some(vec!["warm"]));
    assert!(tags.probability("large").is_some_and(|share| share < 0.5));
    assert_eq!((sold.probability("maybe"), predicted[0].get("color")), (None, None));

    // A map of columns.
    let map = |pairs: [(&'static str, Value); 4]| BTreeMap::from(pairs);
    let own =
        [("size", json!(2)), ("color", json!("red")), ("words", json!("a;b")), ("gap", json!("7"))];
    let by_map = model.predict_rows(&[map(own.clone())]).expect("predicted");
    assert_eq!(by_map[0], predicted[0]);
    assert_eq!(model.predict_rows::<Item>(&[]).expect("no rows"), []);

    let with = |name: &'static str, value: Value| {
        let mut changed = map(own.clone());
        changed.insert(name, value);
        model.predict_rows(&[map(own.clone()), changed]).map(drop).expect_err(name)
    };
    for (error, words) in [
        (with("size", json!("large")), "`rows` line 2, column `size`: expected a finite number"),
        (with("size", Value::Null), "`rows` line 2, column `size`: the value is missing"),
        (with("size", json!([2])), "row 2, column `size`: expected a number, a text"),
        (with("words", json!(["a;b"])), "row 2, column `words`: `a;b` has `;`, which divides"),
        (with("words", json!([1])), "row 2, column `words`: expected a list of texts, got 1 in it"),
        (
            model.predict_rows(&[json!({ "size": 1 })]).map(drop).expect_err("columns"),
            "row 1, column `color`: the row does not have it; it has `size`",
        ),
        (model.predict_rows(&[1.5]).map(drop).expect_err("a number"), "row 1: it has no names"),
    ] {
        assert!(error.is_input() && error.to_string().contains(words), "{error}");
    }
    #[derive(Deserialize, Debug)]
    struct Other {
        #[expect(dead_code, reason = "it cannot be read")]
        cost: f64,
    }
    let error = predicted[0].values::<Other>().expect_err("no such target").to_string();
    assert!(error.contains("missing field `cost`"), "{error}");
}

#[test]
fn a_model_of_images_predicts_no_rows() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read_with(TASKS[0].trial(), &["train.epochs=1"]).expect("valid").plan;
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");
    let error = model.predict_rows(&[json!({ "x": 1 })]).expect_err("images");
    assert!(error.is_input() && error.to_string().contains("no rows of tables"), "{error}");
}
