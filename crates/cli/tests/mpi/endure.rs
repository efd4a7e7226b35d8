//! `endure`: runs of which random ranks are killed.

use serde_json::Value;

use crate::processes::updraft;

/// A few of the kills of `endured_for_long`, which takes minutes.
pub(crate) fn endured() {
    same_bits(10, 2);
}

/// Fifty kills of two ranks, of four, and of four that continue on fewer.
pub(crate) fn endured_for_long() {
    same_bits(50, 2);
    same_bits(50, 4);
    within_noise(50, 4);
}

/// Runs of which a random rank is killed end in the bits of the undisturbed ones.
fn same_bits(kills: u64, ranks: usize) {
    let rows = endure(kills, ranks, &[]);
    let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("kills"), sum("full_disks"), sum("read_only")), (kills, 0, 0), "{rows:?}");
    assert!(rows.len() >= 2 && sum("kills_in_saves") > 0, "{rows:?}");
    assert!(sum("ends") >= rows.len() as u64, "{rows:?}");
    println!("endure: {kills} kills of one of {ranks} ranks, and the same bits");
}

/// Runs that continue on fewer ranks have the loss and the accuracy of other seeds.
fn within_noise(kills: u64, ranks: usize) {
    let rows = endure(kills, ranks, &["--fewer-ranks"]);
    let killed = rows.iter().map(|row| row["kills"].as_u64().unwrap()).sum::<u64>();
    let farthest =
        |name: &str| -> Vec<f64> { rows.iter().filter_map(|row| row[name].as_f64()).collect() };
    let (losses, accuracies) = (farthest("farthest_loss"), farthest("farthest_accuracy"));
    assert!(killed == kills && losses.len() == rows.len(), "{rows:?}");
    assert!(!accuracies.is_empty(), "a task has an accuracy: {rows:?}");
    // Another number of ranks rounds differently.
    assert!(losses.iter().any(|share| *share > 0.0), "{rows:?}");
    println!(
        "endure: {kills} kills of one of {ranks} ranks, continued on fewer: {losses:.2?} of the \
         tolerance of the loss, {accuracies:.2?} of the accuracy's"
    );
}

/// Disturbs runs, all of which end as they have to, and prints the table.
fn endure(kills: u64, ranks: usize, more: &[&str]) -> Vec<Value> {
    let (kills, ranks) = (kills.to_string(), ranks.to_string());
    let words = ["endure", "--kills", &kills, "--ranks", &ranks, "--json"];
    let output = updraft(&[&words, more].concat()).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = table["runs"].as_array().unwrap().clone();
    for row in &rows {
        println!("  {row}");
    }
    rows
}
