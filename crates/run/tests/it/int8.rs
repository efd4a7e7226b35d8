//! The int8 network of a run: loaded, evaluated, and refused where it is not the run's.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use burn::tensor::activation::softmax;
use burn::tensor::{Tensor, TensorData};
use serde_json::json;
use updraft_data::{
    Blend, CellsConfig, Normalize, NormalizeChannels, OpenConfig, ScaledVolume, VolumeScale,
    VolumeSource, decode, open_volume, write_cells,
};
use updraft_quant::slices::Isa;
use updraft_quant::{Calibration, QuantizedModel, Workspace};
use updraft_run::{
    EvaluatedForm, FilePrediction, Int8Network, Int8Record, Outcome, Plan, Predicted,
    PredictedTarget, PredictedValue, RunFolder, TASKS, Trained, TrainedModel,
};

use crate::plans::read_with;
use crate::train::{Watcher, device, train, workload};

/// Quantizes a run's model and writes what `quantize` writes; returns the model and its score.
fn quantize(plan: &Plan, folder: &RunFolder) -> (QuantizedModel, f64) {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let network =
        workload(plan, Some(folder)).into_quantizable(plan, folder, &device().0).expect("a model");
    let graph = network.capture().expect("a graph");
    let chosen = network.calibration(folder, 20).expect("samples");
    let (batches, _) = chosen.batches().expect("batches");
    let batches = batches.map(|batch| batch.expect("delivered"));
    let model = QuantizedModel::try_quantize(&graph, batches, Calibration::MeanSquaredError);
    // In the arithmetic in which it is served here.
    let model = model.expect("an int8 model").for_processor(Isa::detect());
    let scored = network.evaluate(&graph, &model, Isa::Portable, &mut |_, _| true);
    let score = scored.expect("evaluated").expect("not stopped").score_int8;
    let file = model.to_bytes();
    folder.write(Int8Network::FILE, &file).expect("written");
    let record = Int8Record::of_served(folder, plan).expect("a checkpoint").with_network(&file);
    folder.write_json(Int8Network::REPORT, &record).expect("written");
    (model, score)
}

/// The outputs of a model, computed by the portable kernels on one thread.
fn outputs(model: &QuantizedModel, inputs: &[f32]) -> Vec<f32> {
    let mut outputs = vec![0.0; model.outputs().map(|port| port.numbers()).sum()];
    model.run(Isa::Portable, inputs, &mut outputs, &mut Workspace::new(), 1);
    outputs
}

/// A metric of the int8 network on the test data.
fn evaluated(plan: &Plan, folder: &RunFolder, metric: &str) -> f64 {
    let network = Int8Network::open(folder, plan).expect("an int8 network");
    let workload = workload(plan, Some(folder));
    let form = EvaluatedForm::Int8(&network);
    let evaluation = crate::train::evaluated(&*workload, (plan, folder), form);
    evaluation.expect("evaluated").expect("not stopped").value(metric).expect("defined")
}

fn trained(plan: &Plan, runs: &Path) -> Trained {
    train(plan, runs, None, &mut Watcher::default())
}

#[test]
fn an_int8_network_classifies_images_with_the_bits_that_were_scored() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let sets = ["data.train_images=400", "train.epochs=4", "model.dropout=0.0"];
    let plan = read_with(TASKS[0].trial(), &sets).expect("valid").plan;
    let folder = trained(&plan, dir.path()).folder;
    let error = TrainedModel::load_int8(folder.path()).expect_err("not quantized").to_string();
    assert!(error.contains("it was not quantized; `quantize "), "{error}");
    let (model, score) = quantize(&plan, &folder);
    assert_eq!(evaluated(&plan, &folder, "accuracy"), score);
    let network = Int8Network::open(&folder, &plan).expect("an int8 network");
    let error = network.on_device(&device().0).expect_err("flex is no GPU").to_string();
    assert!(error.contains("leave out `--device` to run it on the CPU"), "{error}");

    let path = |name: &str| dir.path().join(name);
    let first = |x: u32, y: u32| image::Rgb([(16 * x) as u8, (16 * y) as u8, 90]);
    let second = |x: u32, y: u32| image::Rgb([90, (3 * x * y) as u8, (12 * x) as u8]);
    image::RgbImage::from_fn(16, 16, first).save(path("first.png")).expect("saved");
    image::RgbImage::from_fn(16, 16, second).save(path("second.png")).expect("saved");
    let loaded = TrainedModel::load_int8(folder.path()).expect("an int8 network");
    let numbers = |key: &str| -> [f32; 3] {
        let list = plan.table()["data"][key].as_array().expect("a list");
        std::array::from_fn(|at| list[at].as_float().expect("a number") as f32)
    };
    let normalize = Normalize { mean: numbers("mean"), std: numbers("std") };
    let of_f32 = TrainedModel::load(folder.path(), "flex").expect("a run");
    let mut all = Vec::new();
    for name in ["first.png", "second.png"] {
        let bytes = fs::read(path(name)).expect("read");
        let image = decode(&bytes, name).expect("an image");
        let logits = outputs(&model, &normalize.planes(&image));
        let shape = [1, logits.len()];
        let logits = Tensor::<2>::from_data(TensorData::new(logits, shape), &device().0);
        let expected: Vec<f32> = softmax(logits, 1).into_data().iter().collect();
        let classes = loaded.predict_file(path(name)).expect("a prediction");
        assert_eq!(classes.len(), expected.len());
        for class in &classes {
            let at = loaded.classes().iter().position(|name| *name == class.class);
            assert_eq!(class.probability, expected[at.expect("a class")], "{}", class.class);
        }
        assert!(classes.is_sorted_by(|a, b| a.probability >= b.probability));
        assert_ne!(of_f32.predict_file(path(name)).expect("a prediction"), classes);
        all.push(classes);
    }
    assert_ne!(all[0], all[1], "the network depends on its input");
}

#[test]
fn an_int8_network_of_adaptive_gates_has_the_penalty_of_the_network_in_f32() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let penalty = "model.penalty={ entropy = 0.1, balance = 0.5 }";
    let sets = ["model.dropout=0.0", "model.gate=adaptive", penalty];
    let plan = read_with(TASKS[0].trial(), &sets).expect("valid").plan;
    let folder = trained(&plan, dir.path()).folder;
    let (model, score) = quantize(&plan, &folder);
    assert_eq!(evaluated(&plan, &folder, "accuracy"), score);

    let network = workload(&plan, Some(&folder))
        .into_quantizable(&plan, &folder, &device().0)
        .expect("a model");
    let inputs = network.first_inputs().expect("images");
    let expected = network.outputs(&inputs);
    let image = network.input_shape().iter().product();
    let found: Vec<f32> =
        inputs.chunks_exact(image).flat_map(|image| outputs(&model, image)).collect();
    let differences: f32 = expected.iter().zip(&found).map(|(a, b)| (a - b).powi(2)).sum();
    let error = (differences / expected.iter().map(|x| x * x).sum::<f32>()).sqrt();
    // The logits of a network that has hardly learned are small beside the rounding to int8.
    assert!(error < 0.5, "{error}");

    let workload = workload(&plan, Some(&folder));
    let of_f32 = crate::train::evaluated(&*workload, (&plan, &folder), EvaluatedForm::Served);
    let of_f32 = of_f32.expect("evaluated").expect("not stopped").value("loss-penalty");
    let of_f32 = of_f32.expect("a penalty");
    let of_int8 = evaluated(&plan, &folder, "loss-penalty");
    assert!(of_f32 > 0.0 && (of_int8 - of_f32).abs() < 1e-6 * of_f32, "{of_int8} {of_f32}");
}

/// A network of images with batch norm, whose windows are whole images.
const CONVERTER: &str = "task = \"image-to-image\"\n\
    [data]\npatch = [40, 56]\npatches = 4\nscale = { kind = \"unit\" }\n\
    [model]\nfilters = [2, 4]\nblock = \"plain\"\nnormalization = \"batch\"\n\
    [train]\nepochs = 1\nbatch = 4\n";

#[test]
fn an_int8_network_converts_images_with_the_bits_of_its_outputs() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let cells = CellsConfig { sides: vec![40, 56], seed: 3 };
    let files = write_cells(dir.path(), &cells, 3, 1, &mut |_| {}).expect("written");
    let set = format!("data.dir={:?}", dir.path());
    for (manifest, target) in [(files.segmentation, "labels"), (files.label_free, "image")] {
        fs::copy(manifest, dir.path().join("volumes.csv")).expect("copied");
        let target = format!("data.target={target}");
        let is_image = target.ends_with("image");
        let plan = read_with(CONVERTER, &[&set, &target]).expect("valid").plan;
        let folder = trained(&plan, dir.path()).folder;
        let (model, score) = quantize(&plan, &folder);
        if is_image {
            // The loss is the squared error; its sum has another order.
            let loss = evaluated(&plan, &folder, "loss");
            assert!((loss - score).abs() < 1e-5 * score, "{loss} is not {score}");
        } else {
            assert!((0.0..=1.0).contains(&evaluated(&plan, &folder, "dice")));
        }

        let input = if is_image { "transmitted" } else { "fluorescence" };
        let input = dir.path().join(format!("field002_{input}.ome.tif"));
        let loaded = TrainedModel::load_int8(folder.path()).expect("an int8 network");
        let out = dir.path().join("out.ome.tif");
        let mut request = FilePrediction::new(&input, &out);
        (request.blend, request.keeps_channels) = (Blend::Constant, !is_image);
        let go_on = &mut |_| ControlFlow::Continue(());
        loaded.predict_image(&request, go_on).expect("predicted");
        let read = |source: &dyn VolumeSource| {
            let raster = source.read(&source.spec().frame(0)).expect("read");
            NormalizeChannels::default().planes(&raster).expect("numbers")
        };
        let open = |path: &Path| open_volume(path, &OpenConfig::default()).expect("a TIFF");
        let scaled = ScaledVolume::try_new(open(&input), VolumeScale::Unit).expect("scaled");
        assert_eq!(read(&*open(&out)), outputs(&model, &read(&scaled)), "{target}");

        request.window = Some(vec![32, 32]);
        let error = loaded.predict_image(&request, go_on).expect_err("other windows").to_string();
        assert!(error.contains("windows of [40, 56]: leave out --window"), "{error}");
        fs::remove_file(&out).expect("removed");
    }
}

/// The largest difference between two probabilities of the same class or label.
fn furthest(found: &[Predicted], expected: &[Predicted]) -> f32 {
    let targets = |predicted: &Predicted| -> Vec<PredictedTarget> {
        let Outcome::Targets(targets) = &predicted.outcome else { panic!("targets of a row") };
        targets.clone()
    };
    let pairs = found.iter().zip(expected);
    let pairs =
        pairs.flat_map(|(found, expected)| targets(found).into_iter().zip(targets(expected)));
    let differences = pairs.flat_map(|(found, expected)| {
        assert_eq!(found.name, expected.name);
        let words: Vec<(String, f32)> = match &expected.value {
            PredictedValue::Classes(classes) => {
                classes.iter().map(|one| (one.class.clone(), one.probability)).collect()
            }
            PredictedValue::Labels(labels) => {
                labels.iter().map(|one| (one.label.clone(), one.probability)).collect()
            }
            other => panic!("{other:?} has no probabilities"),
        };
        words.into_iter().map(move |(word, expected)| {
            (found.value.probability(&word).expect("the same words") - expected).abs()
        })
    });
    differences.fold(0.0, f32::max)
}

#[test]
fn int8_networks_predict_rows_behind_the_embeddings_of_their_runs() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let kind = TASKS.iter().find(|kind| kind.name() == "tables").expect("a task");
    let rows = dir.path().join("rows.csv");
    fs::write(&rows, updraft_data::interaction_csv(12, 5)).expect("written");
    for model in [
        "model={ hidden = [16, 8], frequencies = 4 }",
        "model={ kind = \"residual\", hidden = 16, frequencies = 0 }",
        "model={ kind = \"interaction\", hidden = 16, embedding = 8 }",
    ] {
        let plan = read_with(kind.trial(), &[model]).expect("valid").plan;
        let folder = trained(&plan, dir.path()).folder;
        let (quantized, _) = quantize(&plan, &folder);
        assert_eq!(quantized.outputs().len(), 2, "a class and labels: {model}");
        let workload = workload(&plan, Some(&folder));
        let served = crate::train::evaluated(&*workload, (&plan, &folder), EvaluatedForm::Served);
        let loss = served.expect("evaluated").expect("not stopped").loss();
        let of_int8 = evaluated(&plan, &folder, "loss");
        assert!((loss - of_int8).abs() < 0.05 * loss, "{model}: {loss} {of_int8}");

        let predicted = |model: TrainedModel| model.predict(&rows).expect("predictions");
        let of_f32 = predicted(TrainedModel::load(folder.path(), "flex").expect("a run"));
        let of_int8 = predicted(TrainedModel::load_int8(folder.path()).expect("a network"));
        assert_eq!((of_f32.len(), of_int8.len()), (12, 12));
        let off = furthest(&of_int8, &of_f32);
        assert!(off > 0.0 && off < 0.1, "{model}: {off}");
    }
}

#[test]
fn rows_without_targets_are_neither_scored_nor_counted() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let row = |row: usize, target: &str| format!("{},{target}\n", (row * 37 % 101) as f64 / 10.0);
    let train: String = (0..60).map(|at| row(at, &format!("{}", at % 7))).collect();
    // Two batches without any target, one with three and one with none.
    let targets = (0..16).map(|at| row(at, if (8..11).contains(&at) { "2.5" } else { "" }));
    let test: String = targets.collect();
    for (name, rows) in [("train.csv", train), ("test.csv", test)] {
        fs::write(dir.path().join(name), format!("number,y\n{rows}")).expect("written");
    }
    let text = format!(
        "task = \"tables\"\n[targets]\ny = {{ kind = \"number\", missing = \"skip\" }}\n\
         [data]\nsource = \"files\"\nfiles = [\"train.csv\"]\ntest_files = [\"test.csv\"]\n\
         dir = {:?}\n[model]\nhidden = 8\n[train]\nepochs = 1\nbatch = 4\n",
        dir.path()
    );
    let plan = read_with(&text, &[]).expect("valid").plan;
    let folder = trained(&plan, dir.path()).folder;
    let (model, _) = quantize(&plan, &folder);
    let network = workload(&plan, Some(&folder))
        .into_quantizable(&plan, &folder, &device().0)
        .expect("a model");
    let each: usize = network.input_shape().iter().product();
    assert_eq!(network.first_inputs().expect("test rows").len(), 3 * each);
    let mut seen = Vec::new();
    let graph = network.capture().expect("a graph");
    let watch = &mut |done: u64, all: u64| {
        seen.push((done, all));
        true
    };
    let evaluation = network.evaluate(&graph, &model, Isa::Portable, watch);
    assert_eq!(evaluation.expect("evaluated").expect("not stopped").samples, 3);
    assert_eq!((seen.first(), seen.last()), (Some(&(0, 3)), Some(&(3, 3))));
}

#[test]
fn the_int8_file_of_another_model_is_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let text = TASKS[0].trial();
    let plan = read_with(text, &["train.epochs=1"]).expect("valid").plan;
    let folder = trained(&plan, dir.path()).folder;
    quantize(&plan, &folder);
    let refused = |plan: &Plan, folder: &RunFolder| {
        let error = Int8Network::open(folder, plan).expect_err("refused");
        assert!(error.is_input(), "{error}");
        error.to_string()
    };
    let whole = folder.read(Int8Network::FILE).expect("read");

    let mut damaged = whole.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    folder.write(Int8Network::FILE, &damaged).expect("written");
    let error = refused(&plan, &folder);
    assert!(error.contains("model.int8`: ") && error.contains("hash"), "{error}");
    folder.write(Int8Network::FILE, &whole).expect("written");

    // Images of another size.
    let larger = read_with(text, &["train.epochs=1", "data.width=24"]).expect("valid").plan;
    let other = trained(&larger, dir.path()).folder;
    quantize(&larger, &other);
    other.write(Int8Network::FILE, &whole).expect("written");
    let error = refused(&larger, &other);
    assert!(error.contains("from [3, 16, 16] to [") && error.contains("[3, 16, 24]"), "{error}");

    // Of a checkpoint that is not served.
    let report = json!({ "checkpoint": 2 });
    folder.write_json(Int8Network::REPORT, &report).expect("written");
    let error = refused(&plan, &folder);
    assert!(error.contains("the checkpoint of step 2 was, which it does not serve"), "{error}");
}
