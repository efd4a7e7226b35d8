//! `endure`: runs of which random ranks are killed.

use crate::processes::updraft;

/// Runs of which a random rank is killed end in the bits of the undisturbed ones.
pub(crate) fn endured() {
    let kills = ["endure", "--kills", "10", "--ranks", "2", "--json"];
    let output = updraft(&kills).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = table["runs"].as_array().unwrap();
    let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("kills"), sum("full_disks"), sum("read_only")), (10, 0, 0), "{table}");
    assert!(rows.len() == 2 && sum("ends") >= 2 && sum("kills_in_saves") > 0, "{table}");
    println!("endure: ten kills of a rank, and the same bits");

    let fewer = ["endure", "--kills", "12", "--ranks", "3", "--fewer-ranks", "--json"];
    let output = updraft(&fewer).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = table["runs"].as_array().unwrap();
    let kills = rows.iter().map(|row| row["kills"].as_u64().unwrap()).sum::<u64>();
    let farthest: Vec<_> = rows.iter().filter_map(|row| row["farthest_loss"].as_f64()).collect();
    assert!(kills == 12 && farthest.len() == rows.len(), "{table}");
    // Another number of ranks rounds differently.
    assert!(farthest.iter().any(|share| *share > 0.0), "{table}");
    println!(
        "endure: runs that continue on fewer ranks end within the noise of seeds: {farthest:?}"
    );
}
