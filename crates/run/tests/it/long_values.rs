//! Errors about keys and values of any length are short.

use updraft_run::TunePlan;

use crate::plans::{read_with, table};

#[test]
fn keys_and_values_of_60_kb_and_numbers_of_300_digits_are_not_echoed_whole() {
    let long = "k".repeat(60_000);
    let sets = [
        format!("{long}=1"),
        format!("train.{long}=1"),
        format!("train.optimizer.{long}=1"),
        format!("train.{long}="),
        long.clone(),
        format!("train.criterion={long}"),
        format!("train.freeze={long}"),
        format!("train={long}"),
        "train.learning_rate=1e-310".to_owned(),
        "train.clip_norm=-1e308".to_owned(),
    ];
    for set in &sets {
        let error = read_with("", &[set.as_str()]).err().expect("refused").to_string();
        assert!(error.chars().count() < 700, "{set:.40}: {error:.200}");
    }
    for range in [
        "{ kind = \"float\", low = 1e308, high = -1e308 }".to_owned(),
        format!("{{ kind = \"categorical\", choices = [\"{long}\"] }}"),
        format!("{{ kind = \"{long}\" }}"),
    ] {
        let space = format!("[tune.space]\n\"train.learning_rate\" = {range}\n");
        let planned = read_with(&table(&space), &[]).expect("a plan");
        let error = TunePlan::read(&planned).expect_err("refused").to_string();
        assert!(error.contains("tune.space.train.learning_rate."), "{error:.200}");
        assert!(error.chars().count() < 700, "{error:.200}");
    }
    let space =
        table("[tune.space]\n\"model.hidden\" = { kind = \"integer\", low = 1, high = 4 }\n");
    let planned = read_with(&space, &[format!("tune.objectives={long}").as_str()]).expect("a plan");
    let error = TunePlan::read(&planned).expect_err("refused").to_string();
    assert!(error.contains(", such as [") && error.chars().count() < 700, "{error:.200}");
}
