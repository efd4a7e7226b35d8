//! The gradients of a batch without an update.

use burn::module::Module;
use burn::optim::SgdConfig;
use burn::tensor::Device;
use updraft_testing::alone;
use updraft_trainer::{EvaluationPass, StepAt, StepSettings, Task, batch_gradients, train_step};

use crate::small::{Classifier, loader, task};

#[test]
fn loss_and_gradients_are_those_of_a_training_step() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    // The step computes the norm for the default policy on values that are not finite.
    let (task, settings) = (task(), StepSettings::default());
    let placed = || {
        let batch = loader(1).epoch(0).next().unwrap().unwrap();
        Task::<Classifier>::place(&task, batch, &device).unwrap()
    };
    let model = Classifier::calm(&device);
    let found = batch_gradients(&task, &model, placed(), &settings, 1).unwrap();
    let at = StepAt { epoch: 0, step: 0, learning_rate: 1.0, seed: 1 };
    let mut optimizer = SgdConfig::new().init();
    let (_, outcome) = train_step(&task, model, &mut optimizer, placed(), &settings, at).unwrap();
    assert!((outcome.loss - found.loss).abs() < 1e-6, "{} {}", outcome.loss, found.loss);
    let squares: f64 = found.gradients.iter().map(|&gradient| f64::from(gradient).powi(2)).sum();
    let norm = outcome.gradient_norm.unwrap();
    assert!((squares.sqrt() / norm - 1.0).abs() < 1e-5, "{} {norm}", squares.sqrt());
    // Convolution, batch norm, linear layer.
    assert_eq!(found.gradients.len(), (3 * 9 + 1) * 4 + 2 * 4 + (4 * 7 * 7 + 1) * 4);

    let settings = StepSettings { in_segments: true, ..settings };
    let model = Classifier::calm(&device);
    let refused = batch_gradients(&task, &model, placed(), &settings, 1);
    assert!(refused.unwrap_err().to_string().contains("it has none"));
}

#[test]
fn a_pass_returns_inputs_and_outputs_batch_by_batch() {
    let _alone = alone();
    let device = Device::flex();
    let model = Classifier::new(&device.clone().autodiff()).valid();
    let (task, data) = (task(), loader(1));
    let policy = updraft_precision::Policy::F32;
    let mut pass = EvaluationPass::new(&task, &model, &data, &device, policy);
    let mut seen = 0;
    while let Some(batch) = pass.next_batch().unwrap() {
        assert_eq!(batch.output.dims(), [batch.samples, 4]);
        let again = model.forward(batch.input);
        assert_eq!(again.into_data(), batch.output.into_data());
        seen += batch.samples;
        assert_eq!((pass.samples(), pass.evaluation().samples), (seen, seen));
    }
    assert_eq!(seen, 48);
}
