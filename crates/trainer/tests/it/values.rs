//! Runs that learn numbers in place of classes.

use std::path::Path;

use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use updraft_data::{InMemoryTensors, Loader, Order, StreamConfig, Targets};
use updraft_precision::Policy;
use updraft_testing::alone;
use updraft_trainer::{
    ClassLoss, Control, Criterion, EarlyStop, Ending, Event, Finished, OptimizerConfig, Run,
    RunData, RunSettings, Schedule, StepSettings, TrainError, evaluate, list_checkpoints,
};

use crate::small;

const OPTIMIZER: OptimizerConfig = OptimizerConfig::Adamw { weight_decay: 0.0 };

/// `[2a − b + 1, b]` at 96 points `[a, b]` of a lattice.
fn lattice() -> InMemoryTensors {
    let points = (0..96).map(|at| [(at % 12) as f32 / 6.0 - 1.0, (at / 12) as f32 / 4.0 - 1.0]);
    let (inputs, values): (Vec<_>, Vec<_>) =
        points.map(|[a, b]| ([a, b], [2.0 * a - b + 1.0, b])).unzip();
    let targets = Targets::Values { shape: vec![2], values: values.concat() };
    InMemoryTensors::from_floats(96, &[2], inputs.concat(), targets).unwrap()
}

fn loader(samples: InMemoryTensors) -> Loader<InMemoryTensors> {
    let config = StreamConfig::new(8).with_order(Order::Shuffled).with_seed(3);
    Loader::collating(samples, config).unwrap()
}

fn forward(model: &Linear, x: Tensor<2>) -> Tensor<2> {
    model.forward(x)
}

fn settings(folder: &Path) -> RunSettings {
    RunSettings {
        learning_rate: 0.1,
        schedule: Schedule::WarmupCosine { warmup: 0.1, floor: 0.0 },
        step: StepSettings::default(),
        criterion: Criterion::TestLoss,
        ..small::settings(folder, 12)
    }
}

fn model(device: &Device) -> Linear {
    device.seed(1);
    let model: Linear = LinearConfig::new(2, 2).init(device);
    // burn draws a parameter when it is first used; draw both now.
    let _ = (model.weight.val(), model.bias.as_ref().map(|bias| bias.val()));
    model
}

/// Trains to the end, or to the step given.
fn train(
    run: Run<Linear>,
    settings: &RunSettings,
    device: &Device,
    stop_after: Option<u64>,
) -> Result<Finished<Linear>, Box<TrainError>> {
    let (train, test) = (loader(lattice()), loader(lattice()));
    let data = RunData { train: &train, test: Some(&test) };
    let finished = run.train(settings, data, device, &forward, &mut |event, _| {
        if let Event::Epoch(report) = event {
            assert_eq!(report.train_accuracy, None);
        }
        match event {
            Event::Step(report) if Some(report.step + 1) == stop_after => Control::Stop,
            _ => Control::Continue,
        }
    });
    finished.map_err(Box::new)
}

fn bits(model: &Linear) -> Vec<u32> {
    let bias = model.bias.as_ref().unwrap().val().into_data();
    let weight = model.weight.val().into_data();
    weight.iter::<f32>().chain(bias.iter::<f32>()).map(f32::to_bits).collect()
}

#[test]
fn a_linear_layer_learns_a_linear_function_and_resumes_to_the_same_bits() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = || tempfile::tempdir().unwrap();
    let (whole, broken) = (folder(), folder());
    let fresh = || Run::new(model(&device), OPTIMIZER.init());
    let unbroken = train(fresh(), &settings(whole.path()), &device, None).unwrap();
    let score = unbroken.test.unwrap();
    assert!(score.loss < 1e-3 && score.r_squared.unwrap() > 0.999, "{score:?}");
    assert_eq!((score.accuracy, score.samples), (None, 96));

    let settings = settings(broken.path());
    let stopped = train(fresh(), &settings, &device, Some(70)).unwrap();
    assert_eq!((stopped.ending, stopped.steps), (Ending::Stopped, 70));
    let newest = list_checkpoints(broken.path()).unwrap().pop().unwrap();
    let run = Run::resume(&newest, model(&device), OPTIMIZER.init()).unwrap();
    let resumed = train(run, &settings, &device, None).unwrap();
    assert_eq!(bits(&resumed.model), bits(&unbroken.model));
    assert_eq!(resumed.test, unbroken.test);
}

#[test]
fn the_score_of_values_is_the_one_computed_by_hand() {
    let _alone = alone();
    let device = Device::flex();
    let nothing = model(&device);
    let values = vec![1e4, 1.0, 1e4 + 2.0, 5.0, 1e4 + 4.0, 3.0];
    let targets = Targets::Values { shape: vec![2], values };
    let inputs = vec![1e4 + 1.0, 1.0, 1e4 + 2.0, 4.0, 1e4 + 3.0, 5.0];
    let samples = InMemoryTensors::from_floats(3, &[2], inputs, targets).unwrap();
    let data = Loader::collating(samples, StreamConfig::new(2)).unwrap();
    let same = |_: &Linear, x: Tensor<2>| x;
    let poll = &mut |_| Control::Continue;
    let score = evaluate(&nothing, &same, &data, &device, Policy::F32, poll).unwrap().unwrap();
    // Squared errors 1, 0, 1 of values that vary by 8, and 0, 1, 4 of values that vary by 8.
    assert!((score.loss - 7.0 / 6.0).abs() < 1e-9, "{score:?}");
    let r_squared = (1.0 - 2.0 / 8.0 + 1.0 - 5.0 / 8.0) / 2.0;
    assert!((score.r_squared.unwrap() - r_squared).abs() < 1e-9, "{score:?}");
    assert_eq!((score.accuracy, score.samples), (None, 3));

    let targets = Targets::Values { shape: vec![1], values: vec![2.0; 3] };
    let flat = InMemoryTensors::from_floats(3, &[1], vec![1.0, 2.0, 3.0], targets).unwrap();
    let data = Loader::collating(flat, StreamConfig::new(2)).unwrap();
    let score = evaluate(&nothing, &same, &data, &device, Policy::F32, poll).unwrap().unwrap();
    assert_eq!(score.r_squared, None);
}

#[test]
fn samples_without_targets_are_their_own() {
    let _alone = alone();
    let nothing = model(&Device::flex());
    let inputs: Vec<f32> = (0..12).map(|at| at as f32).collect();
    let samples = InMemoryTensors::from_floats(2, &[2, 3], inputs, Targets::None).unwrap();
    let data = Loader::collating(samples, StreamConfig::new(2)).unwrap();
    let double = |_: &Linear, x: Tensor<3>| x.flatten::<2>(1, 2).mul_scalar(2.0);
    let poll = &mut |_| Control::Continue;
    let score = evaluate(&nothing, &double, &data, &Device::flex(), Policy::F32, poll);
    let loss = score.unwrap().unwrap().loss;
    assert!((loss - 506.0 / 12.0).abs() < 1e-9, "{loss}");
}

#[test]
fn what_only_classes_have_is_refused_by_name() {
    let _alone = alone();
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::flex().autodiff());
    let plain = settings(folder.path());
    let step = |loss, label_smoothing| StepSettings { loss, label_smoothing, ..plain.step };
    let early_stop = Some(EarlyStop { patience: 2, least_gain: 0.0 });
    for (settings, name) in [
        (RunSettings { step: step(ClassLoss::MeanSquaredError, 0.0), ..plain.clone() }, "`loss`"),
        (
            RunSettings { step: step(ClassLoss::CrossEntropy, 0.1), ..plain.clone() },
            "`label_smoothing`",
        ),
        (
            RunSettings { criterion: Criterion::TestAccuracy, early_stop, ..plain.clone() },
            "`criterion`",
        ),
    ] {
        let run = Run::new(model(&device), OPTIMIZER.init());
        let error = train(run, &settings, &device, None).unwrap_err().to_string();
        assert!(error.starts_with(name), "{error}");
    }
}
