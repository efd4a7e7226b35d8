//! The perceptron: its values, gradients, parameters and configuration.

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use updraft_models::{Perceptron, PerceptronConfig, PerceptronConfigError};
use updraft_testing::{
    Numbers, alone, assert_close, autodiff_devices, devices, in_dtype, parameter_gradient_check,
    tolerance,
};

const WIDTHS: [usize; 4] = [3, 5, 4, 2];

fn net(device: &Device) -> Perceptron {
    device.seed(11);
    PerceptronConfig::new(WIDTHS).init(device)
}

fn rows(count: usize, device: &Device) -> Tensor<2> {
    device.seed(5);
    Tensor::random([count, WIDTHS[0]], Distribution::Normal(0.0, 1.0), device)
}

/// Every parameter by path, in module order.
#[derive(Default)]
struct Parameters {
    path: Vec<String>,
    found: Vec<(String, Vec<f64>)>,
}

impl ModuleVisitor for Parameters {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.push((self.path.join("."), param.val().numbers()));
    }
}

fn parameters(module: &impl Module) -> Vec<(String, Vec<f64>)> {
    let mut list = Parameters::default();
    module.visit(&mut list);
    list.found
}

/// The formula of [`Perceptron`] in f64, one output after the other.
fn reference(parameters: &[(String, Vec<f64>)], rows: &[f64]) -> Vec<f64> {
    let layers = WIDTHS.len() - 1;
    rows.chunks(WIDTHS[0])
        .flat_map(|row| {
            let mut features = row.to_vec();
            for layer in 0..layers {
                let (weight, bias) = (&parameters[2 * layer].1, &parameters[2 * layer + 1].1);
                let outputs = WIDTHS[layer + 1];
                features = (0..outputs)
                    .map(|output| {
                        let products =
                            (0..features.len()).map(|i| features[i] * weight[i * outputs + output]);
                        let sum = bias[output] + products.sum::<f64>();
                        if layer + 1 == layers { sum } else { sum / (1.0 + (-sum).exp()) }
                    })
                    .collect();
            }
            features
        })
        .collect()
}

#[test]
fn the_outputs_are_those_of_the_formula() {
    for device in devices() {
        let (net, rows) = (net(&device), rows(7, &device));
        let outputs = net.forward(rows.clone());
        assert_eq!(outputs.dims(), [7, WIDTHS[3]]);
        assert_close(&outputs, &reference(&parameters(&net), &rows.numbers()), tolerance::F32);
    }
}

#[test]
fn two_widths_make_one_linear_layer() {
    for device in devices() {
        device.seed(11);
        let net = PerceptronConfig::new([WIDTHS[0], 2]).init(&device);
        device.seed(11);
        let layer = LinearConfig::new(WIDTHS[0], 2).init(&device);
        let outputs = net.forward(rows(4, &device)).numbers();
        assert_eq!(outputs, layer.forward(rows(4, &device)).numbers());
    }
}

#[test]
fn every_gradient_agrees_with_central_differences() {
    for device in autodiff_devices() {
        let net = in_dtype(net(&device), FloatDType::F64);
        let rows = rows(6, &device).cast(FloatDType::F64);
        parameter_gradient_check(&net, 20, tolerance::GRADIENT, |net| {
            net.forward(rows.clone()).powi_scalar(2).mean()
        });
    }
}

#[test]
fn the_dtype_of_the_input_is_that_of_the_output() {
    for device in devices() {
        for dtype in [FloatDType::F64, FloatDType::F32, FloatDType::BF16] {
            let net = in_dtype(net(&device), dtype);
            assert_eq!(net.forward(rows(2, &device).cast(dtype)).dtype(), dtype.into());
        }
    }
}

#[test]
fn the_parameters_are_those_of_a_list_named_layers() {
    let _alone = alone();
    let names: Vec<String> =
        parameters(&net(&Device::flex())).into_iter().map(|(name, _)| name).collect();
    let expected = [
        "layers.0.weight",
        "layers.0.bias",
        "layers.1.weight",
        "layers.1.bias",
        "layers.2.weight",
        "layers.2.bias",
    ];
    assert_eq!(names, expected);
}

/// A stored seed keeps its meaning: a layer's weight is drawn before its bias, and both before the
/// next layer's, from the device's random state when they are first read.
#[test]
fn a_seed_gives_the_weights_of_linear_layers_drawn_in_order() {
    for device in devices() {
        device.seed(11);
        let layers: Vec<Linear> = WIDTHS
            .windows(2)
            .map(|pair| LinearConfig::new(pair[0], pair[1]).init(&device))
            .collect();
        let expected: Vec<Vec<f64>> = layers
            .iter()
            .flat_map(|layer| {
                [layer.weight.val().numbers(), layer.bias.as_ref().unwrap().val().numbers()]
            })
            .collect();
        let values = |net: &Perceptron| -> Vec<Vec<f64>> {
            parameters(net).into_iter().map(|(_, values)| values).collect()
        };
        assert_eq!(values(&net(&device)), expected);

        // The same where the forward pass reads them first, under a seed that is set after `init`.
        let rows = rows(2, &device);
        let net = PerceptronConfig::new(WIDTHS).init(&device);
        device.seed(11);
        let _ = net.forward(rows);
        assert_eq!(values(&net), expected);
    }
}

#[test]
fn an_invalid_width_is_refused_with_its_position() {
    let refusal = |widths: &[usize]| PerceptronConfig::new(widths).validate().unwrap_err();
    assert_eq!(PerceptronConfig::new([1, 1]).validate(), Ok(()));
    assert_eq!(refusal(&[]), PerceptronConfigError::TooFewWidths { count: 0 });
    assert_eq!(refusal(&[3]), PerceptronConfigError::TooFewWidths { count: 1 });
    assert_eq!(refusal(&[3, 4, 0]), PerceptronConfigError::ZeroWidth { index: 2 });
    let message = refusal(&[3]).to_string();
    assert_eq!(message, "`widths` needs at least 2 entries, inputs and outputs; got 1");
    assert_eq!(refusal(&[3, 0, 1]).to_string(), "`widths[1]` is 0; expected at least 1");
}

#[test]
#[should_panic(expected = "`widths[0]` is 0; expected at least 1")]
fn init_refuses_what_validate_refuses() {
    let _alone = alone();
    let _ = PerceptronConfig::new([0, 1]).init(&Device::flex());
}

#[test]
#[should_panic(expected = "axis 1 expected 3, got 4")]
fn rows_of_another_width_are_refused() {
    let _alone = alone();
    let device = Device::flex();
    let _ = net(&device).forward(Tensor::ones([2, 4], &device));
}
