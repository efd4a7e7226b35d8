//! One update: the mean over batches, and what happens when something is not finite.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use updraft_precision::{DynamicScale, LossScale, LossScaler, Policy};
use updraft_testing::{alone, assert_close, autodiff_devices, tolerance};
use updraft_trainer::{
    ClassCounts, Control, Event, NonFinite, RunData, Skipped, StepAt, StepOutcome, StepSettings,
    TrainError, train_step, train_step_accumulated,
};

use crate::small::{ClassLoss, Classifier, Classify, loader, new_run, optimizer, settings, task};

/// A classifier without batch norms.
#[derive(Module, Debug)]
struct Plain {
    linear: Linear,
}

impl Plain {
    fn new(device: &Device) -> Self {
        device.seed(1);
        let linear: Linear = LinearConfig::new(12, 3).init(device);
        // burn draws a parameter when it is first used; draw both now.
        let _ = (linear.weight.val(), linear.bias.as_ref().map(|bias| bias.val()));
        Self { linear }
    }

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.linear.forward(images.flatten(1, 3))
    }
}

fn images(device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    let pixels: Vec<f32> = (0..12 * 12).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let labels: Vec<i64> = (0..12).map(|i| i * i % 3).collect();
    (
        Tensor::from_data(TensorData::new(pixels, [12, 3, 2, 2]), device),
        Tensor::from_data(TensorData::new(labels, [12]), device),
    )
}

const CROSS_ENTROPY: ClassLoss = ClassLoss::CrossEntropy { smoothing: 0.0 };

fn plain_task(loss: ClassLoss) -> Classify<'static, Plain> {
    Classify { loss, ..Classify::new(&Plain::forward) }
}

const fn at(step: u64, learning_rate: f64) -> StepAt {
    StepAt { epoch: 0, step, learning_rate, seed: 0 }
}

type Updated = (Plain, StepOutcome<ClassCounts>);

/// An update on the twelve images in batches of the given sizes.
fn update(device: &Device, sizes: &[usize], settings: &StepSettings, loss: ClassLoss) -> Updated {
    scaled_update(device, sizes, settings, loss, LossScale::None)
}

fn scaled_update(
    device: &Device,
    sizes: &[usize],
    settings: &StepSettings,
    loss: ClassLoss,
    scale: LossScale,
) -> Updated {
    let (images, labels) = images(device);
    let mut begin = 0;
    let mut batches = sizes.iter().map(|size| {
        let rows = begin..begin + size;
        begin += size;
        Ok((images.clone().slice([rows.clone()]), labels.clone().slice([rows])))
    });
    let mut optimizer = SgdConfig::new().init();
    train_step_accumulated(
        &plain_task(loss),
        Plain::new(device),
        &mut optimizer,
        &mut LossScaler::try_new(scale).unwrap(),
        &mut batches,
        settings,
        at(0, 0.5),
    )
    .unwrap()
}

#[test]
fn batches_of_any_sizes_make_the_update_of_one_batch_of_all() {
    let _alone = alone();
    for device in autodiff_devices() {
        for loss in [CROSS_ENTROPY, ClassLoss::Focal { gamma: 2.0 }] {
            let settings = StepSettings { clip_norm: Some(0.1), ..StepSettings::default() };
            let (whole, expected) = update(&device, &[12], &settings, loss);
            assert!(
                whole.linear.weight.val().into_data()
                    != Plain::new(&device).linear.weight.val().into_data()
            );
            for sizes in [&[4, 4, 4][..], &[6, 6], &[5, 7], &[1, 3, 8]] {
                let (parts, outcome) = update(&device, sizes, &settings, loss);
                let weights = [&parts, &whole].map(|model| model.linear.weight.val());
                assert_close(&weights[0], &weights[1], tolerance::F32);
                assert_close(&outcome.loss, &expected.loss, tolerance::F32);
                let norms = [&outcome, &expected].map(|outcome| outcome.gradient_norm.unwrap());
                assert_close(&norms[0], &norms[1], tolerance::F32);
                assert_eq!((outcome.score, outcome.samples), (expected.score, 12));
            }
        }
    }
}

#[test]
fn one_batch_makes_the_same_bits_in_either_function() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let settings = StepSettings::default();
    let (by_many, _) = update(&device, &[12], &settings, CROSS_ENTROPY);
    let mut optimizer = SgdConfig::new().init();
    let (by_one, _) = train_step(
        &plain_task(CROSS_ENTROPY),
        Plain::new(&device),
        &mut optimizer,
        images(&device),
        &settings,
        at(0, 0.5),
    )
    .unwrap();
    let [one, many] = [by_one, by_many].map(|model| model.linear.weight.val().into_data());
    assert!(one == many);
}

fn broken_images(device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    let mut pixels = vec![0.5_f32; 2 * 3 * 16 * 16];
    pixels[700] = f32::NAN;
    let labels = TensorData::new(vec![0_i64, 1], [2]);
    let images = TensorData::new(pixels, [2, 3, 16, 16]);
    (Tensor::from_data(images, device), Tensor::from_data(labels, device))
}

#[test]
fn a_bad_image_stops_the_step_and_is_named() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let mut optimizer = optimizer().init();
    let error = train_step(
        &task(),
        Classifier::new(&device),
        &mut optimizer,
        broken_images(&device),
        &StepSettings::default(),
        at(7, 0.1),
    )
    .unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("step 7: the loss is NaN; not finite first: the input"),
        "{message}"
    );
}

#[test]
fn a_step_left_out_changes_no_weight_no_statistic_and_no_optimizer_state() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let mut optimizer = optimizer().init();
    let settings =
        StepSettings { non_finite: NonFinite::Skip { at_most: 1 }, ..StepSettings::default() };
    let good = loader(1).epoch(0).next().unwrap().unwrap().to_device(&device);
    let model = Classifier::new(&device);
    let (model, outcome) =
        train_step(&task(), model, &mut optimizer, good, &settings, at(0, 0.1)).unwrap();
    assert_eq!(outcome.skipped, None);
    let (bits, moments) = (model.bits(), state_of(&optimizer));
    let broken = broken_images(&device);
    let (model, outcome) =
        train_step(&task(), model, &mut optimizer, broken, &settings, at(1, 0.1)).unwrap();
    assert_eq!(outcome.skipped.unwrap().to_string(), "the input");
    assert!(model.bits() == bits, "the model moved");
    assert!(state_of(&optimizer) == moments, "the optimizer's state moved");
}

#[test]
fn a_run_continues_after_skipped_steps_until_there_are_too_many_in_a_row() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 2);
    settings.step.non_finite = NonFinite::Skip { at_most: 2 };
    let data = loader(1);
    let run = |bad_calls: std::ops::Range<u32>| {
        let count = std::cell::Cell::new(0);
        let sometimes = |model: &Classifier, images: Tensor<4>| {
            count.set(count.get() + 1);
            let logits = model.forward(images);
            if bad_calls.contains(&count.get()) { logits.mul_scalar(f32::NAN) } else { logits }
        };
        let task = Classify::new(&sometimes);
        let mut skipped = Vec::new();
        let data = RunData { train: &data, test: None };
        let ended = new_run(&device).train(&task, &settings, data, &device, &mut |event, _| {
            if let Event::Step(report) = event
                && report.skipped.is_some()
            {
                skipped.push(report.step);
            }
            Control::Continue
        });
        (ended, skipped)
    };
    let (ended, skipped) = run(4..6);
    assert_eq!((ended.unwrap().steps, skipped), (12, vec![3, 4]));
    let (ended, skipped) = run(4..9);
    let error = ended.unwrap_err();
    assert!(matches!(error, TrainError::TooManySkips { step: 5, skips: 3, .. }), "{error}");
    assert!(error.to_string().contains("the outputs"), "{error}");
    assert_eq!(skipped, [3, 4]);
}

/// The optimizer's state as it would be saved: every tensor with its name.
fn state_of(optimizer: &ModuleOptimizer) -> Vec<(String, Vec<u8>)> {
    let bytes = optimizer.to_record().into_bytes().unwrap();
    let tensors = burn_pack::Reader::from_bytes(bytes).unwrap().into_tensors().unwrap();
    let mut found: Vec<_> = tensors
        .into_iter()
        .map(|tensor| tensor.into_parts().unwrap())
        .map(|(name, _, _, _, bytes)| (name, bytes.to_vec()))
        .collect();
    found.sort();
    found
}

/// The same values, with gradients so large that no loss scale brings them into range.
fn overflowing(logits: Tensor<2>) -> Tensor<2> {
    let logits = logits.cast(FloatDType::F32);
    let huge = logits.clone().mul_scalar(1e30);
    logits + (huge.clone() - huge.detach())
}

fn dynamic(initial: f64) -> LossScale {
    LossScale::Dynamic(DynamicScale { initial, ..DynamicScale::default() })
}

#[test]
fn a_step_that_overflows_changes_no_weight_no_statistic_and_no_optimizer_state() {
    let _alone = alone();
    for device in autodiff_devices() {
        for policy in [Policy::F32, Policy::F16_MIXED] {
            let mut optimizer = optimizer().init();
            let mut scaler = LossScaler::try_new(dynamic(1024.0)).unwrap();
            let settings = StepSettings { policy, ..StepSettings::default() };
            let mut step = |model, plant: fn(Tensor<2>) -> Tensor<2>| {
                let data = loader(1);
                let forward = |model: &Classifier, images| plant(model.forward(images));
                let (model, outcome) = train_step_accumulated(
                    &Classify::new(&forward),
                    model,
                    &mut optimizer,
                    &mut scaler,
                    &mut data.epoch(0).take(2).map(|batch| Ok(batch.unwrap().to_device(&device))),
                    &settings,
                    at(0, 0.1),
                )
                .unwrap();
                let bits = (model.bits(), state_of(&optimizer));
                (model, outcome.skipped, bits, scaler.scale())
            };
            let model = policy.autocast(Classifier::new(&device));
            let (model, skipped, before, _) = step(model, |logits| logits);
            assert_eq!(skipped, None);
            let (model, skipped, after, scale) = step(model, overflowing);
            assert_eq!(skipped, Some(Skipped::Overflow { scale: 1024.0 }));
            assert!(after == before, "something moved");
            assert_eq!(scale, 512.0);
            let (_, skipped, moved, _) = step(model, |logits| logits);
            assert_eq!(skipped, None);
            assert!(moved.0 != before.0 && moved.1 != before.1, "a good step moves both");
        }
    }
}

#[test]
fn a_scale_does_not_show_in_the_update() {
    let _alone = alone();
    for device in autodiff_devices() {
        let settings = StepSettings { clip_norm: Some(0.1), ..StepSettings::default() };
        let (plain, expected) = update(&device, &[5, 7], &settings, CROSS_ENTROPY);
        // In f32 a scale that is a power of two rounds nothing.
        let scale = LossScale::Static { scale: 4096.0 };
        let (scaled, outcome) = scaled_update(&device, &[5, 7], &settings, CROSS_ENTROPY, scale);
        assert_eq!((outcome.loss, outcome.samples), (expected.loss, expected.samples));
        let weights = [&plain, &scaled].map(|model| model.linear.weight.val());
        assert_close(&weights[1], &weights[0], tolerance::F32);
    }
}
