//! The dual-pathway network: adaptive gates, the penalty of weights, and the contributions of its
//! pathways.

use serde_json::Value;
use updraft_data::Views;
use updraft_run::{Contributions, EvaluatedForm, Plan, RecomputePlan, RunFolder, Term};
use updraft_trainer::Ending;

use crate::masked_images::weights;
use crate::plans::{read, read_with};
use crate::train::{Watcher, device, evaluated, train, workload};

/// Generated images with a network that trains in a moment.
const SMALL: &str = "data = { height = 16, width = 16, train_images = 96, test_images = 20 }\n\
    model = { channels = 4 }\n\
    train = { epochs = 2, batch = 24, learning_rate = 0.01 }\n";

const GATES: [&str; 2] = ["model.gate=static", "model.gate=adaptive"];
const PENALTY: &str = "model.penalty={ entropy = 0.3, balance = 2.0 }";

fn plan(sets: &[&str]) -> Plan {
    read_with(SMALL, sets).expect("valid").plan
}

/// The lines of an event in the metrics of a run.
fn lines(folder: &RunFolder, event: &str) -> Vec<Value> {
    let lines = updraft_run::read_metrics(folder).expect("metrics").lines;
    lines.into_iter().filter(|line| line["event"] == event).collect()
}

/// The norm of the difference of two vectors, relative to the first.
fn apart(expected: &[f32], found: &[f32]) -> f64 {
    assert_eq!(expected.len(), found.len());
    let differences = expected.iter().zip(found).map(|(a, b)| f64::from(*a) - f64::from(*b));
    let norm = |values: Vec<f64>| values.iter().map(|x| x * x).sum::<f64>().sqrt();
    norm(differences.collect()) / norm(expected.iter().map(|x| f64::from(*x)).collect())
}

#[test]
fn adaptive_gates_with_a_penalty_train_and_resume_to_the_same_bits() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for segments in ["train.recompute=none", "train.recompute=segments"] {
        let plan = plan(&[GATES[1], PENALTY, segments]);
        let whole = train(&plan, dir.path(), None, &mut Watcher::default());
        let mut stops = Watcher { stop_after: Some(3), ..Watcher::default() };
        let stopped = train(&plan, dir.path(), None, &mut stops);
        assert_eq!(stopped.ending, Ending::Stopped, "{segments}");
        assert!(!stopped.folder.has(Contributions::FILE));
        let resumed = train(&plan, dir.path(), Some(stopped.folder), &mut Watcher::default());
        assert!(weights(&resumed.folder, &plan) == weights(&whole.folder, &plan), "{segments}");
        let [found, expected] = [&resumed.folder, &whole.folder]
            .map(|folder| folder.contributions(&plan).expect("readable").expect("pathways"));
        assert_eq!(found, expected, "{segments}");
    }
}

/// With a learning rate that moves nothing, the weights are those of new gates: the softmax of ½
/// for each pathway and 0 for the stream.
#[test]
fn the_penalty_is_a_part_of_the_loss_with_its_name() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let (pathway, stream) = (0.5_f64.exp(), 1.0);
    let sum = 2.0 * pathway + stream;
    let three = [pathway / sum, pathway / sum, stream / sum];
    let entropy = -three.iter().map(|weight| weight * weight.ln()).sum::<f64>();
    let imbalance = three.iter().map(|weight| (weight - 1.0 / 3.0).powi(2)).sum::<f64>();
    // The first of three integrations has two streams of equal weights.
    let expected = 0.3 * (2.0_f64.ln() + 2.0 * entropy) / 3.0 + 2.0 * (2.0 * imbalance) / 3.0;
    for gate in GATES {
        let still = "train.learning_rate=1e-20";
        let plans = [plan(&[gate, still]), plan(&[gate, still, PENALTY])];
        let names = plans.each_ref().map(|plan| -> Vec<String> {
            plan.task.metrics().iter().map(|metric| metric.name.to_string()).collect()
        });
        assert_eq!(names[0], ["loss", "accuracy"]);
        assert_eq!(names[1], ["loss", "loss-penalty", "accuracy"]);
        let [plain, penalized] = plans.each_ref().map(|plan| {
            let folder = train(plan, dir.path(), None, &mut Watcher::default()).folder;
            lines(&folder, "epoch").pop().expect("an epoch")
        });
        for of in ["train", "test"] {
            let number = |line: &Value, name: &str| line[of][name].as_f64().expect("a number");
            let added = number(&penalized, "loss-penalty");
            assert!((added - expected).abs() < 1e-5, "{gate} {of}: {added} {expected}");
            let difference = number(&penalized, "loss") - number(&plain, "loss");
            assert!((difference - added).abs() < 1e-5, "{gate} {of}: {difference} {added}");
            assert!(plain[of].get("loss-penalty").is_none());
        }
    }
}

#[test]
fn segments_have_the_gradients_of_the_whole_pass_with_the_penalty() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    for gate in GATES {
        let [plain, penalized] = [plan(&[gate]), plan(&[gate, PENALTY])];
        let folder = train(&plain, dir.path(), None, &mut Watcher::default()).folder;
        let gradients = |plan: &Plan, recompute: RecomputePlan| {
            let workload = workload(plan, Some(&folder));
            let found = workload.gradients(plan, &folder, recompute, &device().0);
            found.expect("gradients").gradients
        };
        let [whole, cut] = [RecomputePlan::None, RecomputePlan::Segments]
            .map(|recompute| [&plain, &penalized].map(|plan| gradients(plan, recompute)));
        for (whole, cut) in whole.iter().zip(&cut) {
            assert!(apart(whole, cut) < 1e-3, "{gate}: {}", apart(whole, cut));
        }
        // What the penalty adds is no rounding, and as large in both.
        let added = |[plain, penalized]: &[Vec<f32>; 2]| -> Vec<f32> {
            plain.iter().zip(penalized).map(|(a, b)| b - a).collect()
        };
        assert!(apart(&whole[1], &whole[0]) > 1e-3, "{gate}: {}", apart(&whole[1], &whole[0]));
        let error = apart(&added(&whole), &added(&cut));
        assert!(error < 0.1, "{gate}: {error}");
    }
}

#[test]
fn recomputed_segments_train_with_the_losses_of_kept_activations() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for gate in GATES {
        let [kept, recomputed] = ["none", "segments"].map(|recompute| -> Vec<f64> {
            let plan = plan(&[gate, PENALTY, &format!("train.recompute={recompute}")]);
            let folder = train(&plan, dir.path(), None, &mut Watcher::default()).folder;
            let steps = lines(&folder, "step");
            steps.iter().map(|line| line["loss"].as_f64().expect("a loss")).collect()
        });
        assert_eq!(kept.len(), 8);
        for (kept, recomputed) in kept.iter().zip(&recomputed) {
            assert!((recomputed - kept).abs() < 1e-3 * kept, "{gate}: {recomputed} {kept}");
        }
    }
}

#[test]
fn contributions_have_the_weights_that_the_served_network_applies() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for gate in GATES {
        let plan = plan(&[gate]);
        let folder = train(&plan, dir.path(), None, &mut Watcher::default()).folder;
        let found = folder.contributions(&plan).expect("readable").expect("pathways");
        let places = found.places();
        let names: Vec<&str> = places.iter().map(|place| place.place.as_str()).collect();
        assert_eq!(names, ["stage 0", "stage 1", "pooled"], "{gate}");
        let check = |terms: &[Term], count: usize| {
            assert_eq!(terms.len(), count, "{gate}");
            let weights: f64 = terms.iter().filter_map(|term| term.weight).sum();
            let shares: f64 = terms.iter().map(|term| term.share).sum();
            assert!((weights - 1.0).abs() < 1e-5 && (shares - 1.0).abs() < 1e-5, "{terms:?}");
        };
        for (place, count) in places.iter().zip([3, 4, 4]) {
            assert_eq!((place.images, place.classes.len()), (20, found.classes().len()));
            check(&place.overall, count);
            place.classes.iter().flatten().for_each(|terms| check(terms, count));
        }
        let last = lines(&folder, "epoch").pop().expect("an epoch");
        let is_adaptive = gate == GATES[1];
        assert_eq!(found.weights_depend_on_the_class(), is_adaptive);
        if is_adaptive {
            assert!(last.get("integration_weights").is_none(), "{last}");
            continue;
        }
        for (place, applied) in places.iter().zip(last["integration_weights"].as_array().unwrap()) {
            for (term, name) in place.overall.iter().zip(["color", "brightness"]) {
                let applied = applied[name].as_f64().expect("a weight");
                assert!((term.weight.unwrap() - applied).abs() < 1e-6, "{name} {applied}");
            }
        }
    }
}

#[test]
fn contributions_of_other_weights_are_refused_and_other_networks_have_none() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let own = plan(&[]);
    let folder = train(&own, dir.path(), None, &mut Watcher::default()).folder;
    let earlier = RunFolder::open(folder.path()).expect("a run").with_checkpoint(Some(4));
    let error = earlier.expect("kept").contributions(&own).expect_err("of step 8").to_string();
    assert!(error.contains("those of step 8, than the served ones, those of step 4"), "{error}");

    let mut edited: Value = folder.read_json(Contributions::FILE).expect("readable");
    edited["weights"] = Value::from("0");
    folder.write_json(Contributions::FILE, &edited).expect("written");
    let error = folder.contributions(&own).expect_err("of other weights").to_string();
    assert!(error.contains("is of other weights"), "{error}");

    let other = plan(&["model.kind=separable"]);
    let folder = train(&other, dir.path(), None, &mut Watcher::default()).folder;
    assert!(!folder.has(Contributions::FILE));
    assert_eq!(folder.contributions(&other).expect("nothing to read"), None);
}

#[test]
fn an_average_over_views_has_the_penalty_of_the_images_themselves() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = plan(&[GATES[1], PENALTY]);
    let folder = train(&plan, dir.path(), None, &mut Watcher::default()).folder;
    let workload = workload(&plan, Some(&folder));
    let penalty = |form| {
        let score = evaluated(&*workload, (&plan, &folder), form).expect("scored");
        score.expect("not stopped").value("loss-penalty").expect("a penalty")
    };
    let plain = penalty(EvaluatedForm::Served);
    assert!(plain > 0.0);
    for views in [Views::Flip, Views::FlipTranslate] {
        assert_eq!(penalty(EvaluatedForm::Averaged(views)), plain, "{views}");
    }
}

#[test]
fn a_penalty_or_a_gate_that_a_network_does_not_have_is_refused() {
    let refusal = |model: &str| {
        let text = format!("[model]\n{model}\n");
        read(&text).expect_err(model).to_string()
    };
    for weights in
        ["entropy = 0.0", "entropy = -1.0, balance = 1.0", "balance = inf", "entropy = 1e300"]
    {
        let message = refusal(&format!("penalty = {{ {weights} }}"));
        let expected = "each 0 or in the range of f32, 1.2e-38 to 3.4e38, and one above 0";
        assert!(message.contains("`model.penalty`") && message.contains(expected), "{message}");
    }
    for (model, key) in [
        ("kind = \"single-pathway\"\npenalty = { entropy = 1.0 }", "penalty"),
        ("kind = \"separable\"\npenalty = { entropy = 1.0 }", "penalty"),
        ("kind = \"separable\"\ngate = \"adaptive\"", "gate"),
    ] {
        let message = refusal(model);
        let expected = format!("`model.{key}` is not read beside `model.kind = ");
        assert!(message.contains(&expected), "{message}");
    }
    let message = refusal("penalty = { l1 = 1.0 }");
    assert!(message.contains("`model.penalty.l1`"), "{message}");
    let message = refusal("gate = \"soft\"");
    assert!(message.contains("`static`") && message.contains("`adaptive`"), "{message}");
    // The twin of a network with adaptive gates is wider.
    read("[model]\nkind = \"single-pathway\"\ngate = \"adaptive\"\n").expect("valid");
}
