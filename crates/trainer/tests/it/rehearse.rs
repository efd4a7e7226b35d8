//! Two updates and a score on examples of a task.

use std::cell::RefCell;

use burn::tensor::{Device, Tensor};
use updraft_testing::alone;
use updraft_trainer::{BatchNormStatistics, EmaConfig, Transfer, rehearse};

use crate::small::{Classifier, Classify, optimizer, settings};

#[test]
fn all_passes_of_a_run_are_made_at_the_batch_size() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 1);
    settings.accumulate = 3;
    settings.transfer = Transfer::Ahead;
    settings.ema = Some(EmaConfig { decay: 0.9 });
    settings.batch_norm = BatchNormStatistics::Recomputed { batches: 2 };
    let sizes = RefCell::new(Vec::new());
    let forward = |model: &Classifier, images: Tensor<4>| {
        sizes.borrow_mut().push(images.dims()[0]);
        model.forward(images)
    };
    let model = Classifier::new(&device);
    let optimizer = optimizer().init();
    rehearse(&Classify::new(&forward), model, optimizer, &settings, 5, &device).unwrap();
    // Two updates of three batches, three passes that find the momentum and the statistics of
    // batch norms, and one that scores.
    assert_eq!(sizes.into_inner(), [5; 10]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no checkpoint is written");
}
