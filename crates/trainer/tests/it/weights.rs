//! Weights that are not those of the last update: frozen ones, and slow ones.

use burn::tensor::Device;
use updraft_testing::{alone, autodiff_devices};
use updraft_trainer::{
    Control, Event, Freeze, Lookahead, OptimizerConfig, Run, RunData, RunSettings, Schedule,
};

use crate::run::{casting, train};
use crate::small::{Classifier, loader, new_run, settings};

#[test]
fn frozen_parameters_keep_their_bits_and_the_others_are_trained() {
    let _alone = alone();
    for device in autodiff_devices() {
        let trained = |epochs, freeze: &[Freeze]| {
            let folder = tempfile::tempdir().unwrap();
            let mut settings = settings(folder.path(), epochs);
            settings.schedule = Schedule::Constant;
            settings.step.freeze = freeze.to_vec();
            train(new_run(&device), &settings, &device, None).0.model
        };
        let freeze = Freeze { parameters: "norm".to_owned(), after_epochs: 1 };
        let [one, three] = [1, 3].map(|epochs| trained(epochs, std::slice::from_ref(&freeze)));
        let values = |model: &Classifier| {
            [&model.norm.gamma, &model.norm.beta]
                .map(|p| p.val().into_data().iter::<f32>().collect::<Vec<f32>>())
        };
        assert_eq!(values(&one), values(&three));
        assert_ne!(values(&one), values(&trained(3, &[])));
        assert_ne!(one.bits(), three.bits());
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path(), 1);
        settings.step.freeze = vec![Freeze { parameters: "gone".to_owned(), after_epochs: 0 }];
        let (data, never) = (loader(1), &mut |_: &Event, _: &Classifier| Control::Continue);
        let data = RunData { train: &data, test: None };
        let error = new_run(&device).train(&casting(), &settings, data, &device, never);
        assert!(error.unwrap_err().to_string().starts_with("`step.freeze.parameters` is \"gone\""));
    }
}

#[test]
fn faster_shifts_and_slow_weights_resume_to_the_same_bits() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let sgd = OptimizerConfig::Sgd { momentum: 0.9, weight_decay: 0.01, norm_bias_factor: 8.0 };
    let fresh = || Run::new(Classifier::new(&device), sgd.init());
    let settings = |folder: &std::path::Path| RunSettings {
        lookahead: Some(Lookahead { every: 3, decay: 0.8, power: 1.0 }),
        ..settings(folder, 2)
    };
    let folder = tempfile::tempdir().unwrap();
    let (whole, _) = train(fresh(), &settings(folder.path()), &device, None);
    for stop in [1, 3, 5, 8] {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path());
        let (stopped, _) = train(fresh(), &settings, &device, Some(stop));
        let run = Run::resume(&stopped.checkpoint, Classifier::new(&device), sgd.init()).unwrap();
        let (resumed, _) = train(run, &settings, &device, None);
        assert!(resumed.model.bits() == whole.model.bits(), "other weights after {stop}");
    }
    let folder = tempfile::tempdir().unwrap();
    let plain = RunSettings { lookahead: None, ..settings(folder.path()) };
    assert!(train(fresh(), &plain, &device, None).0.model.bits() != whole.model.bits());
}
