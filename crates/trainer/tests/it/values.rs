//! Runs that predict numbers.

use std::path::Path;

use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use updraft_data::{
    InMemoryTensors, Loader, Order, ResidentBatch, ResidentTensors, StreamConfig, TargetBatch,
    Targets, TensorBatch,
};
use updraft_precision::Policy;
use updraft_testing::alone;
use updraft_trainer::{
    BatchStream, Control, Counted, Criterion, Deviations, Direction, Ending, EpochStream,
    Evaluation, Event, Finished, Losses, MetricSpec, OptimizerConfig, Run, RunData, RunSettings,
    Schedule, StepContext, StepSettings, StreamError, Task, Unit, evaluate, list_checkpoints,
    mean_squared_error, with_graph,
};

use crate::small;

const OPTIMIZER: OptimizerConfig =
    OptimizerConfig::Adamw { weight_decay: 0.0, betas: [0.9, 0.999] };

type Placed = Result<(Tensor<2>, Tensor<2>), StreamError>;

/// Predicts the numbers of each sample.
struct Regress<'a, B> {
    forward: &'a dyn Fn(&Linear, Tensor<2>) -> Tensor<2>,
    place: fn(B, &Device) -> Placed,
}

impl<B> Task<Linear> for Regress<'_, B> {
    type Batch = B;
    type Input = Tensor<2>;
    type Target = Tensor<2>;
    type Output = Tensor<2>;
    type Score = Deviations;

    fn place(&self, batch: B, device: &Device) -> Placed {
        (self.place)(batch, device)
    }

    fn forward(&self, model: &Linear, input: Tensor<2>, _: &StepContext) -> Tensor<2> {
        (self.forward)(model, input)
    }

    fn loss(&self, output: &Tensor<2>, target: &Tensor<2>) -> Losses {
        mean_squared_error(output.clone(), target.clone()).into()
    }

    fn samples(&self, target: &Tensor<2>) -> usize {
        target.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> (Tensor<2>, Tensor<2>) {
        (Tensor::ones([batch, 2], device), Tensor::ones([batch, 2], device))
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        vec![
            MetricSpec::new("rmse", Unit::None, Direction::LowerIsBetter),
            MetricSpec::new("r-squared", Unit::None, Direction::HigherIsBetter),
        ]
    }

    fn measure(&self, output: &Tensor<2>, target: &Tensor<2>) -> Option<Tensor<1>> {
        Some(Deviations::measure(output, target))
    }

    fn values(&self, score: &Deviations) -> Vec<Option<f64>> {
        vec![score.root_mean_squared_error(0), score.r_squared()]
    }
}

fn task() -> Regress<'static, TensorBatch> {
    with_forward(&Linear::forward)
}

fn with_forward(forward: &dyn Fn(&Linear, Tensor<2>) -> Tensor<2>) -> Regress<'_, TensorBatch> {
    let place = |batch: TensorBatch, device: &Device| match batch.targets() {
        TargetBatch::Values { .. } => Ok((batch.input(device)?, batch.target_values(device)?)),
        _ => Err("the samples have no target values".into()),
    };
    Regress { forward, place }
}

/// `[2a − b + 1, b]` at 96 points `[a, b]` of a lattice.
fn lattice() -> InMemoryTensors {
    let points = (0..96).map(|at| [(at % 12) as f32 / 6.0 - 1.0, (at / 12) as f32 / 4.0 - 1.0]);
    let (inputs, values): (Vec<_>, Vec<_>) =
        points.map(|[a, b]| ([a, b], [2.0 * a - b + 1.0, b])).unzip();
    let targets = Targets::Values { shape: vec![2], values: values.concat() };
    InMemoryTensors::from_floats(96, &[2], inputs.concat(), targets).unwrap()
}

fn config() -> StreamConfig {
    StreamConfig::new(8).with_order(Order::Shuffled).with_seed(3)
}

fn loader() -> Loader<InMemoryTensors> {
    Loader::collating(lattice(), config()).unwrap()
}

fn settings(folder: &Path) -> RunSettings {
    RunSettings {
        learning_rate: 0.1,
        schedule: Schedule::WarmupCosine { warmup: 0.1, floor: 0.0 },
        step: StepSettings::default(),
        criterion: Criterion::default(),
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

/// Trains to the end, or to the step given; returns the training metrics of each epoch too.
fn train<B>(
    task: &Regress<'_, B>,
    data: RunData<'_, B>,
    run: Run<Linear>,
    settings: &RunSettings,
    stop_after: Option<u64>,
) -> (Finished<Linear>, Vec<Evaluation>) {
    let device = Device::flex().autodiff();
    let mut epochs = Vec::new();
    let finished = run.train(task, settings, data, &device, &mut |event, _| match event {
        Event::Step(report) if Some(report.step + 1) == stop_after => Control::Stop,
        Event::Epoch(report) => {
            epochs.push(report.train.clone());
            Control::Continue
        }
        _ => Control::Continue,
    });
    (finished.unwrap(), epochs)
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
    let (data, test) = (loader(), loader());
    let data = RunData { train: &data, test: Some(&test) };
    let (unbroken, epochs) = train(&task(), data, fresh(), &settings(whole.path()), None);
    let score = unbroken.test.unwrap();
    let r_squared = score.value("r-squared").unwrap();
    assert!(score.loss() < 1e-3 && r_squared > 0.999, "{score:?}");
    assert!(score.value("rmse").unwrap() < 0.05, "{score:?}");
    assert_eq!((score.value("accuracy"), score.samples), (None, 96));

    // In the middle of the sixth epoch.
    let settings = settings(broken.path());
    let (stopped, before) = train(&task(), data, fresh(), &settings, Some(70));
    assert_eq!((stopped.ending, stopped.steps), (Ending::Stopped, 70));
    let newest = list_checkpoints(broken.path()).unwrap().pop().unwrap();
    let run = Run::resume(&newest, model(&device), OPTIMIZER.init()).unwrap();
    let (resumed, after) = train(&task(), data, run, &settings, None);
    assert_eq!(bits(&resumed.model), bits(&unbroken.model));
    assert_eq!(resumed.test, Some(score));
    assert_eq!([before, after].concat(), epochs);
}

#[test]
fn a_score_in_the_middle_of_an_epoch_survives_a_checkpoint() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = RunSettings { epochs: 1, ..settings(folder.path()) };
    (settings.checkpoints.every_steps, settings.checkpoints.keep_last) = (Some(5), 9);
    let data = loader();
    let data = RunData { train: &data, test: None };
    let run = Run::new(model(&device), OPTIMIZER.init());
    let (_, epochs) = train(&task(), data, run, &settings, None);
    assert_eq!(epochs[0].samples, 96);
    assert!(epochs[0].value("r-squared").is_some() && epochs[0].value("rmse").is_some());
    let checkpoints = list_checkpoints(folder.path()).unwrap();
    assert_eq!(checkpoints.len(), 3, "after 5, 10 and 12 steps");
    for checkpoint in &checkpoints[..2] {
        let run = Run::resume(checkpoint, model(&device), OPTIMIZER.init()).unwrap();
        let (_, resumed) = train(&task(), data, run, &settings, None);
        assert_eq!(resumed, epochs, "{checkpoint:?}");
    }
}

#[test]
fn a_resident_set_trains_and_resumes_to_the_bits_of_a_loader() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let set = |device: &Device| ResidentTensors::<2>::load(&lattice(), config(), 1 << 20, device);
    let resident = Regress {
        forward: &Linear::forward,
        place: |batch: ResidentBatch<2>, device: &Device| {
            let values = batch.values.ok_or("the set has no target values")?;
            Ok((with_graph(batch.inputs, device), with_graph(values, device)))
        },
    };
    let fresh = || Run::new(model(&device), OPTIMIZER.init());
    let (data, test) = (loader(), loader());
    let data = RunData { train: &data, test: Some(&test) };
    let (expected, epochs) = train(&task(), data, fresh(), &settings(folder.path()), None);

    // Trained and evaluated from one copy, on the plain device.
    let data = set(&Device::flex()).unwrap();
    let data = RunData { train: &data, test: Some(&data) };
    let (whole, reports) = train(&resident, data, fresh(), &settings(folder.path()), None);
    assert_eq!(bits(&whole.model), bits(&expected.model));
    assert_eq!((whole.test, reports), (expected.test, epochs.clone()));

    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let (stopped, before) = train(&resident, data, fresh(), &settings, Some(70));
    let run = Run::resume(&stopped.checkpoint, model(&device), OPTIMIZER.init()).unwrap();
    let (resumed, after) = train(&resident, data, run, &settings, None);
    assert_eq!(bits(&resumed.model), bits(&expected.model));
    assert_eq!([before, after].concat(), epochs);
}

/// The batches of a loader, as a stream that is an iterator for each epoch.
struct Iterated(Loader<InMemoryTensors>);

impl BatchStream<TensorBatch> for Iterated {
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<TensorBatch> + '_> {
        Box::new(Counted::new(self.0.epoch(epoch).map(|batch| Ok(batch?))))
    }

    fn batches(&self) -> usize {
        self.0.batches()
    }

    fn samples(&self) -> usize {
        self.0.samples()
    }

    fn batch(&self) -> usize {
        self.0.batch()
    }
}

#[test]
fn a_stream_that_is_only_an_iterator_trains_and_resumes_to_the_bits_of_a_loader() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let fresh = || Run::new(model(&device), OPTIMIZER.init());
    let expected = {
        let data = loader();
        let data = RunData { train: &data, test: Some(&data) };
        train(&task(), data, fresh(), &settings(folder.path()), None)
    };
    let stream = Iterated(loader());
    let data = RunData { train: &stream, test: Some(&stream) };
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let (stopped, before) = train(&task(), data, fresh(), &settings, Some(70));
    let run = Run::resume(&stopped.checkpoint, model(&device), OPTIMIZER.init()).unwrap();
    let (resumed, after) = train(&task(), data, run, &settings, None);
    assert_eq!(bits(&resumed.model), bits(&expected.0.model));
    assert_eq!([before, after].concat(), expected.1);

    // The state of another kind of stream, or of a longer epoch.
    let loader = loader();
    let refused = |stream: &dyn BatchStream<TensorBatch>, state: &serde_json::Value| {
        stream.resume(0, state).err().expect("refused").to_string()
    };
    let state = BatchStream::epoch(&loader, 0).state();
    assert_eq!(refused(&stream, &state), "the state of the stream is not a number of batches");
    let ended = "the epoch ends after 12 batches; 13 were taken before";
    assert_eq!(refused(&stream, &13.into()), ended);
    let text = refused(&loader, &3.into());
    assert!(text.starts_with("the state is not one of this kind of stream"), "{text}");
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
    let task = with_forward(&|_, x| x);
    let score = |data: &Loader<InMemoryTensors>| {
        let mut poll = |_| Control::Continue;
        evaluate(&task, &nothing, data, &device, Policy::F32, &mut poll).unwrap().unwrap()
    };
    let found = score(&data).evaluation;
    // Squared errors 1, 0, 1 of values that vary by 8, and 0, 1, 4 of values that vary by 8.
    assert!((found.loss() - 7.0 / 6.0).abs() < 1e-9, "{found:?}");
    let r_squared = (1.0 - 2.0 / 8.0 + 1.0 - 5.0 / 8.0) / 2.0;
    assert!((found.value("r-squared").unwrap() - r_squared).abs() < 1e-9, "{found:?}");
    assert!((found.value("rmse").unwrap() - (2.0_f64 / 3.0).sqrt()).abs() < 1e-9, "{found:?}");
    assert_eq!((found.value("accuracy"), found.samples), (None, 3));

    let targets = Targets::Values { shape: vec![1], values: vec![2.0; 3] };
    let flat = InMemoryTensors::from_floats(3, &[1], vec![1.0, 2.0, 3.0], targets).unwrap();
    let data = Loader::collating(flat, StreamConfig::new(2)).unwrap();
    assert_eq!(score(&data).evaluation.value("r-squared"), None);
}
