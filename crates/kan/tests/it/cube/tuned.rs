//! The forms that autotuning chooses.

use burn::tensor::{Device, Tensor};
use updraft_kan::{KanLinearConfig, LayerPath};
use updraft_testing::gpus;

use super::case::{CLOSE, Case, NAMES};

#[test]
fn the_fastest_form_has_the_results_of_the_reference() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for (batch, inputs, outputs) in [(1, 5, 3), (70, 9, 35)] {
            let case = Case::new(KanLinearConfig::new(inputs, outputs).with_bias(true), batch);
            // Measured in the first run, and read again in the second.
            for run in ["first", "second"] {
                let layer = case.layer(&device);
                assert_eq!(layer.path(), LayerPath::Cube);
                case.check_results(&case.run_layer(&device, layer), run, CLOSE);
            }
        }
        // One form computes them: nothing is measured.
        let case = Case::new(KanLinearConfig::new(3, 4).with_degree(5), 9);
        let results = case.run_layer(&device, case.layer(&device));
        case.check_results(&results, "the only form", CLOSE);
    }
}

#[test]
fn each_pass_has_the_bits_of_a_form_in_f32_and_takes_its_choice_again() {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    for device in gpus().into_iter().map(Device::autodiff) {
        let case = Case::new(KanLinearConfig::new(9, 35).with_bias(true).with_scaler(true), 70);
        assert_eq!(case.forms().len(), 2);
        let forms: Vec<_> = case.forms().iter().map(|&form| case.run(&device, form)).collect();
        let [first, second] = [0, 1].map(|_| case.run_layer(&device, case.layer(&device)));
        for (at, name) in NAMES.iter().enumerate() {
            let found = bits(&first[at]);
            assert!(!found.is_empty() && found == bits(&second[at]), "{name} is of another form");
            let is_of_a_form = forms.iter().any(|results| bits(&results[at]) == found);
            assert!(is_of_a_form, "{name} is of no form in f32");
        }
    }
}

#[test]
fn an_empty_batch_is_not_measured() {
    for device in gpus() {
        let layer = KanLinearConfig::new(3, 4).init(&device);
        assert_eq!(layer.forward(Tensor::<2>::zeros([0, 3], &device)).dims(), [0, 4]);
    }
}
