//! Scoring a model on a data set.

use burn::module::Module;
use burn::tensor::Device;
use updraft_precision::Policy;
use updraft_testing::alone;
use updraft_trainer::{Control, evaluate};

use crate::small::{Classifier, forward, loader};

#[test]
fn the_score_is_the_mean_over_samples_and_can_be_interrupted() {
    let _alone = alone();
    let device = Device::flex();
    let model = Classifier::new(&device.clone().autodiff()).valid();
    let data = loader(1);
    let mut scored = Vec::new();
    let score = evaluate(&model, &forward, &data, &device, Policy::F32, &mut |samples| {
        scored.push(samples);
        Control::Continue
    });
    let score = score.unwrap().unwrap();
    assert_eq!(scored, [8, 16, 24, 32, 40, 48]);

    // The same in f64 from the logits of all samples.
    let (mut loss, mut correct) = (0.0, 0);
    for batch in data.epoch(0) {
        let batch = batch.unwrap();
        let labels = batch.labels().to_vec();
        let logits: Vec<f64> =
            forward(&model, batch.to_device(&device).0).into_data().iter().collect();
        for (label, logits) in labels.into_iter().zip(logits.chunks(4)) {
            let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
            loss += sum.ln() - logits[label];
            correct += usize::from(logits.iter().all(|&logit| logit <= logits[label]));
        }
    }
    assert!((score.loss - loss / 48.0).abs() < 1e-5, "{} {}", score.loss, loss / 48.0);
    assert_eq!(score.accuracy, Some(correct as f64 / 48.0));
    assert_eq!(score.r_squared, None);

    let mut batches = 0;
    let stopped = evaluate(&model, &forward, &data, &device, Policy::F32, &mut |_| {
        batches += 1;
        if batches == 2 { Control::Stop } else { Control::Continue }
    });
    assert_eq!((stopped.unwrap(), batches), (None, 2));
}
