//! Quantization-aware training: steps that are learnt, resumed, and taken by the integer network.

use std::path::Path;

use updraft_quant::slices::Isa;
use updraft_quant::{Calibration, Quantization, QuantizedModel, Workspace};
use updraft_run::{Plan, RunFolder};
use updraft_trainer::Ending;

use crate::plans::read;
use crate::train::{Watcher, device, train, workload};
use crate::whitened::weights;

/// Every network that is trained so, small, and a parameter of a quantizer of each.
const NETWORKS: [(&str, &str); 4] = [
    ("{ kind = \"separable\", channels = 4 }", "blocks.1.pointwise.quantizers.output"),
    (
        "{ kind = \"mobile-net\", width_factor = 0.1 }",
        "backbone.blocks.3.project.quantizers.output",
    ),
    (
        "{ kind = \"mobile-net\", width_factor = 0.1, activation = \"hard-swish\" }",
        "backbone.blocks.3.expand.quantizers.linear",
    ),
    (
        "{ kind = \"efficient-net\", width_factor = 0.1, depth_factor = 0.3, drop_path = 0.1 }",
        "backbone.blocks.2.excitation.quantizers.gate",
    ),
];

fn plan(model: &str, bits: &str) -> Plan {
    read(&text(model, bits)).expect("valid")
}

fn text(model: &str, bits: &str) -> String {
    format!(
        "data = {{ height = 16, width = 16, train_images = 96, test_images = 40 }}\n\
         model = {model}\n\
         train = {{ epochs = 2, batch = 24, ema_decay = 0.9, learning_rate = 0.01, \
         recompute_batch_norms = 3, quantization = \"{bits}\" }}\n"
    )
}

fn trained(plan: &Plan, dir: &Path, stop_after: Option<u64>) -> RunFolder {
    let mut watcher = Watcher { stop_after, ..Watcher::default() };
    train(plan, dir, None, &mut watcher).folder
}

#[test]
fn steps_are_learnt_and_resumed_to_the_same_bits() {
    let _alone = updraft_testing::alone();
    for (model, quantizer) in NETWORKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan = plan(model, "int8");
        let whole = trained(&plan, dir.path(), None);
        let stopped = trained(&plan, dir.path(), Some(3));
        let resumed = train(&plan, dir.path(), Some(stopped), &mut Watcher::default());
        assert_eq!(resumed.ending, Ending::Complete);
        for name in ["log_factor", "initial_step", "lowest"] {
            let name = format!("{quantizer}.{name}");
            let values = weights(&whole, &plan, &name);
            assert_eq!(weights(&resumed.folder, &plan, &name), values, "{model} {name}");
        }
        let learnt = weights(&whole, &plan, &format!("{quantizer}.log_factor"));
        assert!(learnt.iter().all(|value| *value != 0.0), "{model} {learnt:?}");
    }
}

#[test]
fn the_integer_network_follows_the_fake_quantized_one_by_steps() {
    let _alone = updraft_testing::alone();
    for ((model, _), bits) in NETWORKS.into_iter().zip(["int4", "int8", "int8", "int4"]) {
        let dir = tempfile::tempdir().expect("temporary folder");
        let text = text(model, bits).replace("epochs = 2", "epochs = 6").replace("= 16", "= 32");
        let plan = read(&text).expect("valid");
        let folder = trained(&plan, dir.path(), None);
        let network = workload(&plan, Some(&folder))
            .into_quantizable(&plan, &folder, &device().0)
            .expect("a model");
        let graph = network.capture().expect("a graph");
        let inputs = network.first_inputs().expect("images");
        let expected = network.outputs(&inputs);
        // The schemes of everything before the pooling are learnt, whatever calibration sees.
        let by = Quantization::new(Calibration::MinMax).float_tail();
        let quantized = QuantizedModel::try_quantize(&graph, [&inputs[..]], by).expect("a model");
        let mut found = vec![0.0; expected.len()];
        quantized.run(Isa::detect(), &inputs, &mut found, &mut Workspace::new(), 1);
        // A step of the outputs in eight bits.
        let range = |pick: fn(f32, f32) -> f32| expected.iter().copied().fold(0.0, pick);
        let step = (range(f32::max) - range(f32::min)) / 255.0;
        let apart: Vec<f32> =
            expected.iter().zip(&found).map(|(a, b)| (a - b).abs() / step).collect();
        let most = apart.iter().copied().fold(0.0, f32::max);
        let mean = apart.iter().sum::<f32>() / apart.len() as f32;
        println!("{model} {bits}: {most} steps at most, {mean} on average");
        // A single layer is within a step. Here a sum next to the middle between two codes changes
        // the codes of all layers after it: in the deep networks, which have hardly learnt, two
        // computations in f32 are up to 41 steps apart, too.
        let [mean_limit, most_limit] =
            if model.contains("separable") { [1.0, 4.0] } else { [20.0, 128.0] };
        let context = format!("{model} {bits}: {most} steps, {mean} on average");
        assert!(mean <= mean_limit && most <= most_limit, "{context}");
    }
}

#[test]
fn other_networks_are_refused_with_those_that_can() {
    let text = "model = { kind = \"whitened\" }\ntrain = { quantization = \"int8\" }\n";
    let error = read(text).expect_err("refused").to_string();
    assert!(error.contains("`train.quantization` is \"int8\""), "{error}");
    assert!(error.contains("`separable`, `mobile-net` and `efficient-net`"), "{error}");
    let text = "model = { kind = \"separable\" }\ntrain = { quantization = \"int3\" }\n";
    let error = read(text).expect_err("refused").to_string();
    assert!(error.contains("int8") && error.contains("int4"), "{error}");
}
