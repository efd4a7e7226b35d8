//! A complete task, which "Add a task" in docs/architecture.md describes.

use std::path::Path;

use burn::tensor::{Device, Distribution, Int, Tensor};
use updraft_data::{DataError, InMemoryTensors, Loader, Order, StreamConfig, Targets, TensorBatch};
use updraft_models::{Perceptron, PerceptronConfig};
use updraft_run::{
    About, AnyWorkload, ConfigError, Key, Keys, Opening, Plan, RunError, Settings, StreamUse,
    Streams, TaskKind, TaskPlan, TrainPlan, Workload, refuse_folder,
};
use updraft_trainer::{
    ClassCounts, Losses, MetricSpec, StepContext, StreamError, Task, cross_entropy, metric_specs,
};

const NUMBERS: usize = 4;

const SAMPLES: Key<usize> = Key::new("data.samples", "samples that are drawn; a fifth is the test")
    .default("400")
    .check("10 to 100000", |samples| (10..=100_000).contains(samples));

/// The task `largest`.
pub struct Largest;

impl TaskKind for Largest {
    fn name(&self) -> &'static str {
        "largest"
    }

    fn about(&self) -> &'static str {
        "which of four numbers is the largest"
    }

    fn keys(&self) -> &'static [Keys] {
        &[&[&SAMPLES]]
    }

    fn trial(&self) -> &'static str {
        "train = { epochs = 2, batch = 24, learning_rate = 0.02 }"
    }

    fn plan(&self, settings: &Settings, _: &TrainPlan) -> Result<Box<dyn TaskPlan>, ConfigError> {
        Ok(Box::new(LargestPlan { samples: settings.value(&SAMPLES)? }))
    }
}

#[derive(Clone, Copy)]
struct LargestPlan {
    samples: usize,
}

impl TaskPlan for LargestPlan {
    fn metrics(&self) -> Vec<MetricSpec> {
        metric_specs(&Choose)
    }

    fn find_data(&self, dir: Option<&Path>) -> Result<(), RunError> {
        refuse_folder(dir)
    }

    fn open(&self, _: &Plan, _: Opening<'_>) -> Result<Box<dyn AnyWorkload>, RunError> {
        Ok(Box::new(*self))
    }
}

impl Workload for LargestPlan {
    type Model = Perceptron;
    type Task = Choose;

    fn task(&self) -> &Choose {
        &Choose
    }

    fn init(&self, device: &Device) -> Perceptron {
        PerceptronConfig::new(vec![NUMBERS, 16, NUMBERS]).init(device)
    }

    fn streams(&self, plan: &Plan, of: StreamUse<'_>) -> Result<Streams<TensorBatch>, RunError> {
        let config = StreamConfig::new(plan.train.batch)
            .with_workers(plan.train.workers.into())
            .with_part(of.part());
        let shuffled = config.clone().with_order(Order::Shuffled).with_seed(plan.seed);
        let train = Loader::collating(draw(self.samples, plan.seed)?, shuffled)?;
        let test = Loader::collating(draw(self.samples / 5, !plan.seed)?, config)?;
        Ok(Streams { train: Box::new(train), test: Box::new(test) })
    }

    fn about(&self) -> About {
        About::new(format!("{} samples of four numbers", self.samples), "perceptron")
            .samples(self.samples, self.samples / 5)
    }
}

/// Numbers by a formula, each sample with the position of its largest.
fn draw(samples: usize, seed: u64) -> Result<InMemoryTensors, DataError> {
    let number = |at: u64| ((at.wrapping_add(seed) as f32 * 12.9898).sin() * 43_758.547).fract();
    let numbers: Vec<f32> = (0..(samples * NUMBERS) as u64).map(number).collect();
    let largest = |row: &[f32]| (0..NUMBERS).max_by(|&a, &b| row[a].total_cmp(&row[b]));
    let classes = numbers.chunks(NUMBERS).filter_map(largest).collect();
    InMemoryTensors::from_floats(samples, &[NUMBERS], numbers, Targets::Classes(classes))
}

/// How a batch becomes a loss and a score.
struct Choose;

impl Task<Perceptron> for Choose {
    type Batch = TensorBatch;
    type Input = Tensor<2>;
    type Target = Tensor<1, Int>;
    type Output = Tensor<2>;
    type Score = ClassCounts;

    fn place(
        &self,
        batch: TensorBatch,
        device: &Device,
    ) -> Result<(Tensor<2>, Tensor<1, Int>), StreamError> {
        Ok((batch.input(device)?, batch.classes(device)?))
    }

    fn forward(&self, model: &Perceptron, numbers: Tensor<2>, _: &StepContext) -> Tensor<2> {
        model.forward(numbers)
    }

    fn loss(&self, logits: &Tensor<2>, classes: &Tensor<1, Int>) -> Losses {
        cross_entropy(logits.clone(), classes.clone(), 0.0).into()
    }

    fn samples(&self, classes: &Tensor<1, Int>) -> usize {
        classes.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> (Tensor<2>, Tensor<1, Int>) {
        let numbers = Tensor::random([batch, NUMBERS], Distribution::Default, device);
        (numbers, Tensor::zeros([batch], device))
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        vec![ClassCounts::spec()]
    }

    fn measure(&self, logits: &Tensor<2>, classes: &Tensor<1, Int>) -> Option<Tensor<1>> {
        Some(ClassCounts::measure(logits, classes))
    }

    fn values(&self, score: &ClassCounts) -> Vec<Option<f64>> {
        vec![score.accuracy()]
    }
}
