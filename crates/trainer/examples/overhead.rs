//! Measures the cost per step of a run beyond that of a hand-written burn loop that also reads the
//! loss.
//!
//! Both sides take the same batches from a loader, run a model of one parameter with one element,
//! read the loss, and update by plain gradient descent. The run also counts correct predictions,
//! times its phases and reports every step as an event. Clip, guard and precision are off on
//! both sides; two more lines show the cost of the guard, and of guard and clip. Pairs alternate;
//! the time is the CPU time of this thread, which other programs change less than wall-clock
//! time.
//!
//! ```text
//! cargo run --example overhead -- [STEPS] [PAIRS]
//! ```
#![allow(clippy::print_stdout, reason = "an example speaks")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use burn::module::{Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, Int, Tensor};
use rustix::time::{ClockId, clock_gettime};
use updraft_data::{DataError, Image, ImageBatch, ImageSource, Loader, LoaderConfig, Workers};
use updraft_trainer::{
    ClassCounts, Control, Losses, MetricSpec, NonFinite, Run, RunData, RunSettings, StepContext,
    StepSettings, StreamError, Task, cross_entropy,
};

/// One parameter with one element: all other work of a step is the loop's.
#[derive(Module, Debug)]
struct One {
    weight: Param<Tensor<1>>,
}

impl One {
    fn new(device: &Device) -> Self {
        Self { weight: Param::from_tensor(Tensor::ones([1], device)) }
    }

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let [batch, channels, height, width] = images.dims();
        let logits = images.reshape([batch, channels * height * width]);
        logits * self.weight.val().unsqueeze()
    }
}

/// Cross-entropy, with the number of correct predictions as score.
struct Classify;

impl Task<One> for Classify {
    type Batch = ImageBatch;
    type Input = Tensor<4>;
    type Target = Tensor<1, Int>;
    type Output = Tensor<2>;
    type Score = ClassCounts;

    fn place(
        &self,
        batch: ImageBatch,
        device: &Device,
    ) -> Result<(Tensor<4>, Tensor<1, Int>), StreamError> {
        Ok(batch.to_device(device))
    }

    fn forward(&self, model: &One, images: Tensor<4>, _: &StepContext) -> Tensor<2> {
        model.forward(images)
    }

    fn loss(&self, logits: &Tensor<2>, classes: &Tensor<1, Int>) -> Losses {
        cross_entropy(logits.clone(), classes.clone(), 0.0).into()
    }

    fn samples(&self, classes: &Tensor<1, Int>) -> usize {
        classes.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
        (Tensor::ones([batch, 3, 1, 1], device), Tensor::zeros([batch], device))
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

/// So many gray images of one pixel.
struct Pixels {
    image: Image<'static>,
    count: usize,
    classes: Vec<String>,
}

impl ImageSource for Pixels {
    fn len(&self) -> usize {
        self.count
    }

    fn read(&self, _index: usize) -> Result<Image<'_>, DataError> {
        Ok(self.image.clone())
    }

    fn name(&self, index: usize) -> String {
        format!("pixel {index}")
    }

    fn label(&self, index: usize) -> usize {
        index % 2
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn fingerprint(&self) -> String {
        format!("{} pixels", self.count)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| match arguments.next() {
        Some(text) => text.parse(),
        None => Ok(default),
    };
    let (steps, pairs) = (number(20_000)?, number(10)?);
    let image = Image::try_new(1, 1, vec![128_u8; 3])?;
    let pixels = Pixels { image, count: 2 * steps, classes: vec!["a".to_owned(), "b".to_owned()] };
    let config = LoaderConfig::new(2).with_workers(Workers::Count(0));
    let loader = Loader::try_new(Arc::new(pixels), config)?;
    let off = StepSettings { non_finite: NonFinite::Ignore, ..StepSettings::default() };
    let guard = StepSettings::default();
    let clip = StepSettings { clip_norm: Some(1.0), ..guard.clone() };
    let mut extra: [Vec<f64>; 3] = Default::default();
    let mut base = Vec::new();
    for pair in 0..=pairs {
        let hand = by_hand(&loader)?;
        let runs = [&off, &guard, &clip].map(|settings| in_a_run(&loader, settings.clone()));
        // The first round warms up.
        if pair == 0 {
            continue;
        }
        let per_step = |time: Duration| time.as_secs_f64() * 1e6 / steps as f64;
        base.push(per_step(hand));
        for (extra, run) in extra.iter_mut().zip(runs) {
            extra.push(per_step(run?) - per_step(hand));
        }
    }
    println!("{steps} steps, {pairs} rounds, median (least to most) in us of this thread per step");
    println!("hand-written loop             {}", spread(&mut base));
    let [off, guard, clip] = &mut extra;
    println!("run, metrics on               + {}", spread(off));
    println!("run, metrics and guard        + {}", spread(guard));
    println!("run, metrics, guard and clip  + {}", spread(clip));
    Ok(())
}

fn by_hand(loader: &Loader) -> Result<Duration, Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let mut model = One::new(&device);
    let mut optimizer = SgdConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&device);
    let mut sum = 0.0;
    let before = thread_time();
    for batch in loader.epoch(0) {
        let (images, labels) = batch?.to_device(&device);
        let loss = loss.forward(model.forward(images), labels);
        sum += loss.clone().into_data().iter::<f64>().sum::<f64>();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-3, model, gradients);
    }
    let took = thread_time() - before;
    assert!(sum.is_finite(), "the loss was read");
    Ok(took)
}

fn in_a_run(loader: &Loader, step: StepSettings) -> Result<Duration, Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir()?;
    let mut settings = RunSettings { step, ..RunSettings::new(1, folder.path()) };
    settings.checkpoints.keep_last = 1;
    let run = Run::new(One::new(&device), SgdConfig::new().init());
    let data = RunData { train: loader, test: None };
    let mut events = 0_usize;
    let before = thread_time();
    run.train(&Classify, &settings, data, &device, &mut |_, _| {
        events += 1;
        Control::Continue
    })?;
    let took = thread_time() - before;
    assert!(events > loader.batches(), "every step was reported");
    Ok(took)
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The clock counts up from zero.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn spread(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let median = match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    };
    format!("{median:6.2}  ({:.2} to {:.2})", values[0], values[values.len() - 1])
}
