//! The range test on a real model.

use burn::tensor::Device;
use updraft_precision::LossScale;
use updraft_testing::alone;
use updraft_trainer::{Control, LrRange, StepSettings, find_learning_rate, suggest_learning_rate};

use crate::small::{ClassLoss, Classifier, Classify, loader, optimizer, task};

#[test]
fn the_range_test_finds_rates_that_learn_and_leaves_the_model_alone() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let model = Classifier::new(&device);
    let before = model.bits();
    let range = LrRange { from: 1e-5, to: 30.0, steps: 80 };
    let data = loader(1);
    let task = Classify { loss: ClassLoss::CrossEntropy { smoothing: 0.0 }, ..task() };
    let find = |stop_after: usize| {
        find_learning_rate(
            &task,
            &model,
            optimizer().init(),
            &data,
            (&device, 1),
            (&StepSettings::default(), LossScale::None, &range),
            &mut |done| if done == stop_after { Control::Stop } else { Control::Continue },
        )
        .unwrap()
    };
    let points = find(usize::MAX).unwrap();
    assert!(points.len() < 80, "it goes on after the loss diverged");
    let found = suggest_learning_rate(&points).unwrap();
    assert!((1e-4..0.3).contains(&found), "{found}");
    assert!(model.bits() == before, "the model moved");
    assert_eq!(find(usize::MAX).unwrap(), points, "another run, other numbers");
    assert!(find(5).is_none());
}
