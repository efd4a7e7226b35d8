//! Runs that compute activations a second time instead of keeping them.

use burn::tensor::{Device, Tensor};
use updraft_testing::{alone, autodiff_devices};
use updraft_trainer::{
    BatchNormStatistics, Control, EmaConfig, Event, Finished, NonFinite, Run, RunData, RunSettings,
    SegmentedPass, Segments,
};

use crate::small::{Classifier, Classify, loader, optimizer, settings, task};

type Features = Segments<'static, Classifier, Tensor<4>, Tensor<4>, Tensor<2>>;

/// The classifier with its features as the only segment.
fn in_segments() -> Features {
    Segments {
        count: 1,
        enter: &|_, images| images,
        segment: &|model: &Classifier, _, images| model.features(images),
        leave: &|model: &Classifier, features| model.classify(features),
    }
}

fn train(
    run: Run<Classifier>,
    settings: &RunSettings,
    device: &Device,
    segments: Option<&dyn SegmentedPass<Classifier, Tensor<4>, Tensor<2>>>,
    stop_after: Option<u64>,
) -> Finished<Classifier> {
    let (data, test) = (loader(1), loader(2));
    let data = RunData { train: &data, test: Some(&test) };
    let task = Classify { segments, ..task() };
    let mut settings = settings.clone();
    settings.step.in_segments = segments.is_some();
    run.train(&task, &settings, data, device, &mut |event, _| match event {
        Event::Step(report) if Some(report.step + 1) == stop_after => Control::Stop,
        _ => Control::Continue,
    })
    .unwrap()
}

fn new(model: Classifier) -> Run<Classifier> {
    Run::new(model, optimizer().init())
}

/// The largest distance, as a share of the largest number.
fn apart(left: &Classifier, right: &Classifier) -> f32 {
    let (left, right) = (left.numbers(), right.numbers());
    let largest = left.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    left.iter().zip(&right).fold(0.0_f32, |most, (x, y)| most.max((x - y).abs())) / largest
}

#[test]
fn a_run_that_recomputes_ends_where_one_that_keeps_does() {
    let _alone = alone();
    for device in autodiff_devices() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path(), 2);
        settings.accumulate = 2;
        let whole = train(new(Classifier::calm(&device)), &settings, &device, None, None);
        // Had a batch norm followed each batch twice, its statistics would be elsewhere.
        let (run, cut) = (new(Classifier::calm(&device)), in_segments());
        let recomputed = train(run, &settings, &device, Some(&cut), None);
        let distance = apart(&whole.model, &recomputed.model);
        assert!(distance < 1e-5, "in segments: {distance}");
        let balanced = device.clone().gradient_checkpointing();
        let run = new(Classifier::calm(&balanced));
        let recomputed = train(run, &settings, &balanced, None, None);
        let distance = apart(&whole.model, &recomputed.model);
        assert!(distance < 1e-5, "element-wise: {distance}");
    }
}

#[test]
fn segments_that_a_task_does_not_have_are_refused_with_its_reason() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 1);
    settings.step.in_segments = true;
    let data = loader(1);
    let data = RunData { train: &data, test: None };
    settings.criterion = "train-loss".parse().unwrap();
    let run = new(Classifier::new(&device));
    let error = run.train(&task(), &settings, data, &device, &mut |_, _| Control::Continue);
    let said = error.expect_err("refused").to_string();
    let expected = "`step.in_segments` is true; it must be false for this task: it has none";
    assert_eq!(said, expected);
}

#[test]
fn a_run_in_segments_with_dropout_resumes_to_the_same_bits() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let (plan, cut) = (settings(folder.path(), 2), in_segments());
    let whole = train(new(Classifier::new(&device)), &plan, &device, Some(&cut), None);
    let folder = tempfile::tempdir().unwrap();
    let plan = settings(folder.path(), 2);
    let run = new(Classifier::new(&device));
    let stopped = train(run, &plan, &device, Some(&cut), Some(5));
    let model = Classifier::new(&device);
    let run = Run::resume(&stopped.checkpoint, model, optimizer().init()).unwrap();
    let resumed = train(run, &plan, &device, Some(&cut), None);
    assert!(resumed.model.bits() == whole.model.bits());
}

#[test]
fn what_copies_the_model_gets_along_with_burns_strategy() {
    let _alone = alone();
    for device in autodiff_devices() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path(), 2);
        settings.ema = Some(EmaConfig { decay: 0.9 });
        settings.batch_norm = BatchNormStatistics::Recomputed { batches: 3 };
        settings.step.non_finite = NonFinite::Skip { at_most: 1 };
        let balanced = device.clone().gradient_checkpointing();
        let run = new(Classifier::new(&balanced));
        let stopped = train(run, &settings, &balanced, None, Some(7));
        let model = Classifier::new(&balanced);
        let run = Run::resume(&stopped.checkpoint, model, optimizer().init()).unwrap();
        let finished = train(run, &settings, &balanced, None, None);
        assert_eq!(finished.steps, 12);
        assert!(finished.test.is_some());
    }
}
