//! `scale-estimate`: the parts of an estimate, from steps that are given or measured.

use std::path::Path;

use serde_json::Value;

use crate::command::{json, run, succeed};

const NETWORK: [&str; 4] = ["--bandwidth", "1000Mbit/s", "--latency", "0.1ms"];

fn estimate(dir: &Path, rest: &[&str]) -> Value {
    let few = ["--set", "data.train_images=640", "--set", "data.test_images=50"];
    json(&succeed(dir, &[&["scale-estimate"][..], &NETWORK, &few, rest].concat()).stdout)
}

fn number(estimate: &Value, name: &str) -> f64 {
    estimate[name].as_f64().unwrap_or_else(|| panic!("no {name}: {estimate}"))
}

#[test]
fn an_estimate_follows_from_the_step_of_a_rank_and_the_network() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let given =
        ["--step-ms", "40", "--steps", "1", "--set", "train.batch=64", "--mtbf", "1000", "--ranks"];
    let of =
        |ranks: &str, more: &[&str]| estimate(dir.path(), &[&given[..], &[ranks], more].concat());
    let (one, two, four) = (of("1", &[]), of("2", &[]), of("4", &[]));
    for (estimate, ranks) in [(&one, 1.0), (&two, 2.0), (&four, 4.0)] {
        let [rank, network, packing, step] =
            ["rank_s", "network_s", "packing_s", "step_s"].map(|name| number(estimate, name));
        assert!((rank - 0.04).abs() < 1e-12 && (rank + network + packing - step).abs() < 1e-12);
        assert!((number(estimate, "efficiency") - rank / step).abs() < 1e-12);
        assert!((number(estimate, "samples_per_s") - 64.0 / step).abs() < 1e-6);
        let failures = number(estimate, "failures_per_s");
        assert!((failures - ranks / 3.6e6).abs() < 1e-12 * ranks);
        let restart = 60.0 + ranks * number(estimate, "checkpoint_s");
        assert!((number(estimate, "restart_s") - restart).abs() < 1e-9);
        assert_eq!(number(estimate, "checkpoint_every_steps"), 10.0, "one an epoch");
    }
    assert_eq!([number(&one, "network_s"), number(&one, "packing_s")], [0.0, 0.0]);
    // By hand, of the numbers that are printed: 100 µs and 125 MB/s, two ranks. Gathering takes two
    // latencies and 1032 bytes, each of three sums two latencies and twice a half of its numbers.
    let (gradients, statistics) = (number(&two, "gradients"), number(&two, "statistics"));
    let bytes = 1032.0 + 4.0 * (gradients + statistics + statistics / 2.0);
    assert!((number(&two, "sent_bytes") - bytes).abs() <= 24.0, "{two}");
    let by_hand = 8.0 * 1e-4 + bytes / 125e6;
    assert!((number(&two, "network_s") - by_hand).abs() < 1e-6, "{by_hand}: {two}");
    let halved = of("2", &["--set", "train.distributed.wire=bf16"]);
    assert!(number(&halved, "sent_bytes") < 0.55 * bytes, "{halved}");
    let rare = of("2", &["--set", "train.checkpoint_every_steps=1000"]);
    assert_eq!(number(&rare, "checkpoint_every_steps"), 1000.0);
    assert!(number(&rare, "useful_share") > number(&two, "useful_share"));

    // Four ranks on two cores: the computation takes twice as long, the network as long as before.
    let crowded = of("4", &["--ranks-per-core", "2"]);
    assert!((number(&crowded, "rank_s") - 0.08).abs() < 1e-12, "{crowded}");
    assert_eq!(number(&crowded, "network_s"), number(&four, "network_s"));
    let [rank, network, packing, step] =
        ["rank_s", "network_s", "packing_s", "step_s"].map(|name| number(&crowded, name));
    assert!((rank + network + packing - step).abs() < 1e-12 && packing > 0.0, "{crowded}");

    let measured = estimate(dir.path(), &["--ranks", "2", "--steps", "2"]);
    assert!(number(&measured, "rank_s") > 0.0 && number(&measured, "packing_s") > 0.0);
    assert_eq!(measured["best_checkpoint_every_steps"], Value::Null, "without failures");
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (arguments, words) in [
        (&["--ranks", "0", "--bandwidth", "1", "--latency", "1"][..], "--ranks"),
        (&["--ranks", "2", "--bandwidth", "0", "--latency", "1"], "it must be above 0"),
        (&["--ranks", "2", "--bandwidth", "1", "--latency", "-1"], "--latency"),
        (&["--ranks", "2", "--bandwidth", "1", "--latency", "nan"], "it must begin with a number"),
        (
            &["--ranks", "2", "--bandwidth", "10GB", "--latency", "1"],
            "write kbit/s, Mbit/s, Gbit/s",
        ),
        (&["--ranks", "2", "--bandwidth", "1"], "--latency"),
        (&["--ranks", "2", "--bandwidth", "1", "--latency", "1", "--mtbf", "x"], "be a number"),
        (
            &["--ranks", "2", "--bandwidth", "1", "--latency", "1", "--ranks-per-core", "0.5"],
            "at least 1",
        ),
        (&["--ranks", "100", "--bandwidth", "1", "--latency", "1"], "`train.batch` is"),
    ] {
        let said = run(dir.path(), &[&["scale-estimate"], arguments].concat());
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains(words), "{arguments:?}: {}", said.stderr);
    }
}
