//! What products multiply in the passes of a run.

use std::cell::RefCell;

use burn::tensor::{Device, Tensor};
use updraft_precision::{Policy, PrecisionError, Products};
use updraft_testing::alone;
use updraft_trainer::{
    BatchNormStatistics, Control, Run, RunData, StepSettings, Task, TrainError, batch_gradients,
    rehearse,
};

use crate::small::{Classifier, Classify, loader, optimizer, settings};

#[test]
fn every_forward_pass_multiplies_what_the_policy_says() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let seen = RefCell::new(Vec::new());
    let forward = |model: &Classifier, images: Tensor<4>| {
        seen.borrow_mut().push(Products::current());
        model.forward(images)
    };
    let task = Classify { cast_norms: &["norm"], ..Classify::new(&forward) };
    for policy in [Policy::F32, Policy::BF16_PRODUCTS] {
        let expected = policy.scope(Products::current);
        let check = |what: &str| {
            let seen = seen.take();
            assert!(!seen.is_empty() && seen.iter().all(|it| *it == expected), "{what}: {seen:?}");
        };
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path(), 1);
        settings.step.policy = policy;
        settings.batch_norm = BatchNormStatistics::Recomputed { batches: 2 };
        rehearse(&task, Classifier::new(&device), optimizer().init(), &settings, 4, &device)
            .unwrap();
        check("rehearsal");
        let batch = loader(1).epoch(0).next().unwrap().unwrap();
        let batch = Task::<Classifier>::place(&task, batch, &device).unwrap();
        let step = StepSettings { policy, ..StepSettings::default() };
        batch_gradients(&task, &Classifier::new(&device), batch, &step, 1).unwrap();
        check("gradients");
        let run = Run::new(Classifier::new(&device), optimizer().init());
        let (train, test) = (loader(1), loader(2));
        let data = RunData { train: &train, test: Some(&test) };
        match run.train(&task, &settings, data, &device, &mut |_, _| Control::Continue) {
            Ok(_) => check("run"),
            Err(TrainError::Precision { cause: PrecisionError::NoBf16Unit { .. } }) => {
                assert_eq!(expected, Products::F32, "a unit is refused");
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(Products::current(), Products::F32, "the scope ends");
    }
}
