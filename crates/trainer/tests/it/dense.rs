//! A task with several input tensors, a dense target, two parts of a loss and a score of its own.

use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_data::{InMemoryTensors, Loader, Order, StreamConfig, Targets, TensorBatch};
use updraft_testing::{alone, assert_close, tolerance};
use updraft_trainer::{
    Control, Direction, Event, Finished, Losses, MetricSpec, Run, RunData, RunSettings, Score,
    StepContext, StreamError, Sum, Task, Unit, load_model, mean_squared_error,
};

use crate::small::{epochs, optimizer, settings};

/// Images of one channel with a number each.
type Input = (Tensor<4>, Tensor<2>);

/// Adds to an image what a number says.
#[derive(Module, Debug)]
struct Restorer {
    enter: Conv2d,
    condition: Linear,
    norm: BatchNorm,
    leave: Conv2d,
}

impl Restorer {
    fn new(device: &Device) -> Self {
        device.seed(2);
        let conv = |channels| {
            Conv2dConfig::new(channels, [3, 3]).with_padding(PaddingConfig2d::Same).init(device)
        };
        let model = Self {
            enter: conv([1, 4]),
            condition: LinearConfig::new(1, 4).init(device),
            norm: BatchNormConfig::new(4).init(device),
            leave: conv([4, 1]),
        };
        // burn draws a parameter when it is first used; draw all of them now.
        model.visit(&mut Bits(Vec::new()));
        model
    }

    fn forward(&self, (images, numbers): Input) -> Tensor<4> {
        let [batch, ..] = images.dims();
        let condition = self.condition.forward(numbers).reshape([batch, 4, 1, 1]);
        let hidden = self.norm.forward(self.enter.forward(images) + condition);
        self.leave.forward(relu(hidden))
    }

    fn bits(&self) -> Vec<u32> {
        let mut bits = Bits(Vec::new());
        self.valid().visit(&mut bits);
        bits.0
    }
}

struct Bits(Vec<u32>);

impl ModuleVisitor for Bits {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.base().into_data().iter::<f32>().map(f32::to_bits));
    }
}

/// The absolute errors of all pixels.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct AbsoluteErrors {
    sum: Sum,
    samples: usize,
}

impl Score for AbsoluteErrors {
    fn add(&mut self, numbers: &[f64], samples: usize) {
        self.sum.add(numbers[0]);
        self.samples += samples;
    }

    fn merge(&mut self, other: &Self) {
        self.sum.add(other.sum.value());
        self.samples += other.samples;
    }
}

const SIDE: usize = 8;

struct Restore;

impl Task<Restorer> for Restore {
    type Batch = TensorBatch;
    type Input = Input;
    type Target = Tensor<4>;
    type Output = Tensor<4>;
    type Score = AbsoluteErrors;

    fn place(
        &self,
        batch: TensorBatch,
        device: &Device,
    ) -> Result<(Input, Tensor<4>), StreamError> {
        let numbers: Vec<f32> = batch.indices().iter().map(|at| (at % 3) as f32 - 1.0).collect();
        let numbers = TensorData::new(numbers, [batch.len(), 1]);
        let input = (batch.input(device)?, Tensor::from_data(numbers, device));
        Ok((input, batch.target_values(device)?))
    }

    fn forward(&self, model: &Restorer, input: Input, _: &StepContext) -> Tensor<4> {
        model.forward(input)
    }

    fn loss(&self, output: &Tensor<4>, target: &Tensor<4>) -> Losses {
        let rows = |images: &Tensor<4>| {
            let below = images.clone().narrow(2, 1, SIDE - 1);
            below - images.clone().narrow(2, 0, SIDE - 1)
        };
        let pixels = mean_squared_error(output.clone(), target.clone());
        let edges = mean_squared_error(rows(output), rows(target));
        let total = pixels.clone() + edges.clone().mul_scalar(0.5);
        Losses { total, parts: vec![pixels, edges] }
    }

    fn samples(&self, target: &Tensor<4>) -> usize {
        target.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> (Input, Tensor<4>) {
        let images = Tensor::ones([batch, 1, SIDE, SIDE], device);
        ((images.clone(), Tensor::ones([batch, 1], device)), images)
    }

    fn parts(&self) -> Vec<String> {
        vec!["pixels".to_owned(), "edges".to_owned()]
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        vec![MetricSpec::new("mae", Unit::Of("counts".into()), Direction::LowerIsBetter)]
    }

    fn measure(&self, output: &Tensor<4>, target: &Tensor<4>) -> Option<Tensor<1>> {
        Some((output.clone() - target.clone()).abs().sum())
    }

    fn values(&self, score: &AbsoluteErrors) -> Vec<Option<f64>> {
        let pixels = score.samples * SIDE * SIDE;
        vec![(pixels > 0).then(|| score.sum.value() / pixels as f64)]
    }
}

/// 24 images; the target of each is the image plus a number that goes with its index.
fn loader() -> Loader<InMemoryTensors> {
    let count = 24 * SIDE * SIDE;
    let images: Vec<f32> = (0..count).map(|at| ((at * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let moved = |(at, pixel): (usize, &f32)| pixel + (at / (SIDE * SIDE) % 3) as f32 - 1.0;
    let values = images.iter().enumerate().map(moved).collect();
    let shape = vec![1, SIDE, SIDE];
    let targets = Targets::Values { shape: shape.clone(), values };
    let set = InMemoryTensors::from_floats(24, &shape, images, targets).unwrap();
    Loader::collating(set, StreamConfig::new(5).with_order(Order::Shuffled).with_seed(1)).unwrap()
}

fn plan(folder: &Path) -> RunSettings {
    let mut settings = settings(folder, 6);
    settings.criterion = "test-loss-edges".parse().unwrap();
    settings.accumulate = 2;
    settings.checkpoints.keep_best = 1;
    settings
}

fn train(
    run: Run<Restorer>,
    settings: &RunSettings,
    stop_after: Option<u64>,
) -> (Finished<Restorer>, Vec<Event>) {
    let device = Device::flex().autodiff();
    let (data, test) = (loader(), loader());
    let data = RunData { train: &data, test: Some(&test) };
    let mut events = Vec::new();
    let finished = run.train(&Restore, settings, data, &device, &mut |event, _| {
        events.push(event.clone());
        match event {
            Event::Step(report) if Some(report.step + 1) == stop_after => Control::Stop,
            _ => Control::Continue,
        }
    });
    (finished.unwrap(), events)
}

fn new_run() -> Run<Restorer> {
    Run::new(Restorer::new(&Device::flex().autodiff()), optimizer().init())
}

#[test]
fn a_task_from_images_to_images_learns_and_reports_each_part_of_its_loss() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (finished, events) = train(new_run(), &plan(folder.path()), None);
    let names = |metrics: &[updraft_trainer::Metric]| -> Vec<String> {
        metrics.iter().map(|metric| metric.spec.name.to_string()).collect()
    };
    let epochs = epochs(&events);
    for evaluation in epochs.iter().flat_map(|epoch| [Some(&epoch.train), epoch.test.as_ref()]) {
        let evaluation = evaluation.unwrap();
        assert_eq!(names(&evaluation.metrics), ["loss", "loss-pixels", "loss-edges", "mae"]);
        assert_eq!(evaluation.samples, 24);
        let value = |name| evaluation.value(name).unwrap();
        let sum = value("loss-pixels") + 0.5 * value("loss-edges");
        assert_close(&value("loss"), &sum, tolerance::F32);
    }
    let Event::Step(step) = &events[0] else { panic!("the first event is a step") };
    assert_eq!(names(&step.metrics), ["loss-pixels", "loss-edges", "mae"]);
    assert_eq!(step.samples, 10);
    let mae = |epoch: usize| epochs[epoch].train.value("mae").unwrap();
    assert!(mae(5) < 0.7 * mae(0), "{} to {}", mae(0), mae(5));
    let record = serde_json::to_value(&events[0]).unwrap();
    assert!(record["metrics"]["loss-edges"].is_number(), "{record}");
    let loaded =
        load_model(&finished.checkpoint, Restorer::new(&Device::flex().autodiff())).unwrap();
    assert!(loaded.bits() == finished.model.bits());
}

#[test]
fn a_run_from_images_to_images_resumes_to_the_same_bits_and_the_same_metrics() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (whole, expected) = train(new_run(), &plan(folder.path()), None);
    let metrics = |events: &[Event]| -> Vec<_> {
        let epochs = events.iter().filter_map(|event| match event {
            Event::Epoch(report) => Some((report.train.clone(), report.test.clone())),
            _ => None,
        });
        epochs.collect()
    };
    // In the middle of an epoch of three updates, and at an end.
    for stop in [4, 5, 6] {
        let folder = tempfile::tempdir().unwrap();
        let settings = plan(folder.path());
        let (stopped, before) = train(new_run(), &settings, Some(stop));
        let model = Restorer::new(&Device::flex().autodiff());
        let run = Run::resume(&stopped.checkpoint, model, optimizer().init()).unwrap();
        let (resumed, after) = train(run, &settings, None);
        assert!(resumed.model.bits() == whole.model.bits(), "stopped after {stop}");
        assert_eq!([metrics(&before), metrics(&after)].concat(), metrics(&expected), "{stop}");
    }
}
