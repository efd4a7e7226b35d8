//! Attention modules: their formulas in f64, number by number, and their gradients.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Distribution, FloatDType, Tensor, TensorData};
use updraft_models::{AttentionConfigError, BamConfig, CbamConfig, EcaConfig};
use updraft_testing::{
    Numbers, assert_close, autodiff_devices, devices, in_dtype, parameter_gradient_check, tolerance,
};

/// Maps `[channels][position]` of one image.
type Maps = Vec<Vec<f64>>;

const CHANNELS: usize = 6;
const SIDE: usize = 5;

fn images(batch: usize, device: &Device) -> Tensor<4> {
    device.seed(5);
    let normal = Distribution::Normal(0.0, 1.0);
    let images: Tensor<4> = Tensor::random([batch, CHANNELS, SIDE, SIDE], normal, device);
    images.cast(FloatDType::F64)
}

fn split(images: &Tensor<4>) -> Vec<Maps> {
    let numbers = images.numbers();
    let maps: Maps = numbers.chunks(SIDE * SIDE).map(<[f64]>::to_vec).collect();
    maps.chunks(CHANNELS).map(<[Vec<f64>]>::to_vec).collect()
}

/// Gives every parameter and statistic a value of its own, variances above 0.
struct Fill {
    path: Vec<String>,
    count: u32,
}

impl ModuleMapper for Fill {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let is_variance = self.path.last().is_some_and(|name| name == "running_var");
        let numbers: Vec<f64> = (0..tensor.shape().num_elements())
            .map(|_| {
                self.count += 1;
                let number = f64::from(self.count * 7919 % 101) / 100.0;
                if is_variance { number + 0.5 } else { number - 0.5 }
            })
            .collect();
        let data = TensorData::new(numbers, tensor.dims());
        let filled = Tensor::from_data(data, (&tensor.device(), tensor.dtype()));
        let filled = filled.set_require_grad(tensor.is_require_grad());
        Param::from_mapped_value(id, filled, mapper)
    }
}

fn filled<M: Module>(module: M) -> M {
    in_dtype(module, FloatDType::F64).map(&mut Fill { path: Vec::new(), count: 0 })
}

/// Every parameter and statistic by its path.
#[derive(Default)]
struct Values {
    path: Vec<String>,
    found: HashMap<String, Vec<f64>>,
}

impl ModuleVisitor for Values {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.insert(self.path.join("."), param.val().numbers());
    }
}

fn values(module: &impl Module) -> HashMap<String, Vec<f64>> {
    let mut values = Values::default();
    module.visit(&mut values);
    values.found
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// `x·W + b` of a layer whose weight is `[inputs, outputs]`.
fn linear(values: &HashMap<String, Vec<f64>>, name: &str, x: &[f64], outputs: usize) -> Vec<f64> {
    let weight = &values[&format!("{name}.weight")];
    let bias = values.get(&format!("{name}.bias"));
    (0..outputs)
        .map(|output| {
            let products = x.iter().zip(0..).map(|(x, input)| x * weight[input * outputs + output]);
            products.sum::<f64>() + bias.map_or(0.0, |bias| bias[output])
        })
        .collect()
}

/// A convolution that keeps the sides, of square kernels.
fn convolve(
    values: &HashMap<String, Vec<f64>>,
    name: &str,
    maps: &Maps,
    kernel: usize,
    dilation: usize,
) -> Maps {
    let weight = &values[&format!("{name}.weight")];
    let taps = kernel * kernel;
    let outputs = weight.len() / maps.len() / taps;
    let bias = values.get(&format!("{name}.bias"));
    let side = SIDE as isize;
    let reach = (kernel / 2 * dilation) as isize;
    let at = |map: &[f64], row: isize, column: isize| {
        let inside = (0..side).contains(&row) && (0..side).contains(&column);
        if inside { map[(row * side + column) as usize] } else { 0.0 }
    };
    let number = |output: usize, place: usize| {
        let (row, column) = ((place / SIDE) as isize, (place % SIDE) as isize);
        let mut sum = bias.map_or(0.0, |bias| bias[output]);
        for (input, map) in maps.iter().enumerate() {
            for tap in 0..taps {
                let [down, right] =
                    [tap / kernel, tap % kernel].map(|step| (step * dilation) as isize - reach);
                sum += weight[(output * maps.len() + input) * taps + tap]
                    * at(map, row + down, column + right);
            }
        }
        sum
    };
    (0..outputs)
        .map(|output| (0..SIDE * SIDE).map(|place| number(output, place)).collect())
        .collect()
}

/// A batch norm by its running statistics, of channel `channel`.
fn normalize(values: &HashMap<String, Vec<f64>>, name: &str, channel: usize, x: f64) -> f64 {
    let of = |part: &str| values[&format!("{name}.{part}")][channel];
    (x - of("running_mean")) / (of("running_var") + 1e-5).sqrt() * of("gamma") + of("beta")
}

#[test]
fn eca_is_its_formula() {
    for device in devices() {
        let (module, images) = (filled(EcaConfig::new(CHANNELS).init(&device)), images(2, &device));
        let weight = values(&module)["conv.weight"].clone();
        assert_eq!(weight.len(), 1, "of 6 channels one decides");
        let expected: Vec<Maps> = split(&images)
            .into_iter()
            .map(|maps| {
                let weights: Vec<f64> =
                    maps.iter().map(|map| sigmoid(weight[0] * mean(map))).collect();
                let scale = |(map, by): (Vec<f64>, f64)| map.iter().map(|x| x * by).collect();
                maps.into_iter().zip(weights).map(scale).collect()
            })
            .collect();
        assert_close(&module.forward(images), &expected, tolerance::F64);
    }
}

#[test]
fn more_channels_have_more_neighbors_by_the_formula_of_the_source() {
    for (channels, kernel) in
        [(1, 1), (2, 1), (8, 3), (64, 3), (128, 5), (256, 5), (384, 5), (512, 5)]
    {
        assert_eq!(EcaConfig::new(channels).kernel_size(), kernel, "{channels}");
    }
    // Three neighbors: weights of a line of channels with zeros beyond its ends.
    let device = Device::flex();
    let module = filled(EcaConfig::new(8).init(&device));
    let weight = values(&module)["conv.weight"].clone();
    let line: Vec<f64> = (0..8).map(|channel| f64::from(channel) - 3.0).collect();
    let maps = Tensor::<1>::from_data(line.as_slice(), (&device, burn::tensor::DType::F64));
    let found = module.forward(maps.reshape([1, 8, 1, 1])).numbers();
    let expected: Vec<f64> = (0..8)
        .map(|at| {
            let beside = |step: usize| (at + step).checked_sub(1).and_then(|at| line.get(at));
            let sum: f64 = (0..3).map(|step| weight[step] * beside(step).unwrap_or(&0.0)).sum();
            line[at] * sigmoid(sum)
        })
        .collect();
    assert_close(&found, &expected, tolerance::F64);
}

#[test]
fn cbam_is_its_formula() {
    for device in devices() {
        let config = CbamConfig::new(CHANNELS).with_reduction(3);
        let (module, images) = (filled(config.init(&device)), images(2, &device));
        let values = values(&module);
        let expected: Vec<Maps> = split(&images)
            .into_iter()
            .map(|maps| {
                let perceptron = |pool: fn(&[f64]) -> f64| {
                    let pooled: Vec<f64> = maps.iter().map(|map| pool(map)).collect();
                    let hidden = linear(&values, "reduce", &pooled, 2);
                    let hidden: Vec<f64> = hidden.iter().map(|h| h.max(0.0)).collect();
                    linear(&values, "expand", &hidden, CHANNELS)
                };
                let (means, maxima) = (perceptron(mean), perceptron(largest));
                let weighted: Maps = maps
                    .iter()
                    .enumerate()
                    .map(|(c, map)| map.iter().map(|x| x * sigmoid(means[c] + maxima[c])).collect())
                    .collect();
                let places = |pool: fn(&[f64]) -> f64| -> Vec<f64> {
                    let column = |place: usize| -> Vec<f64> {
                        weighted.iter().map(|map| map[place]).collect()
                    };
                    (0..SIDE * SIDE).map(|place| pool(&column(place))).collect()
                };
                let pooled = vec![places(mean), places(largest)];
                let of_places = convolve(&values, "positions", &pooled, 7, 1).remove(0);
                let scale = |map: Vec<f64>| -> Vec<f64> {
                    map.iter().zip(&of_places).map(|(x, place)| x * sigmoid(*place)).collect()
                };
                weighted.into_iter().map(scale).collect()
            })
            .collect();
        assert_close(&module.forward(images), &expected, tolerance::F64);
    }
}

#[test]
fn bam_is_its_formula() {
    for device in devices() {
        let config = BamConfig::new(CHANNELS).with_reduction(3).with_dilation(2);
        let (module, images) = (filled(config.init(&device)), images(2, &device));
        let values = values(&module);
        let expected: Vec<Maps> = split(&images)
            .into_iter()
            .map(|maps| {
                let pooled: Vec<f64> = maps.iter().map(|map| mean(map)).collect();
                let hidden = linear(&values, "squeeze", &pooled, 2);
                let hidden: Vec<f64> = hidden.iter().map(|h| h.max(0.0)).collect();
                let channels = linear(&values, "expand", &hidden, CHANNELS);
                let mut seen = convolve(&values, "reduce", &maps, 1, 1);
                for layer in ["dilated.0", "dilated.1"] {
                    seen = convolve(&values, &format!("{layer}.conv"), &seen, 3, 2);
                    let norm = format!("{layer}.norm");
                    for (channel, map) in seen.iter_mut().enumerate() {
                        for x in map {
                            *x = normalize(&values, &norm, channel, *x).max(0.0);
                        }
                    }
                }
                let places = convolve(&values, "collapse", &seen, 1, 1).remove(0);
                let number = |channel: usize, place: usize| {
                    let of_channel = normalize(&values, "channel_norm", channel, channels[channel]);
                    let of_place = normalize(&values, "position_norm", 0, places[place]);
                    maps[channel][place] * (1.0 + sigmoid(of_channel + of_place))
                };
                let map = |channel| (0..SIDE * SIDE).map(|place| number(channel, place)).collect();
                (0..CHANNELS).map(map).collect()
            })
            .collect();
        assert_close(&module.forward(images), &expected, tolerance::F64);
    }
}

#[test]
fn every_gradient_agrees_with_central_differences() {
    for device in autodiff_devices() {
        let images = images(3, &device);
        let check = |loss: Tensor<4>| loss.powi_scalar(2).mean();
        let bam = filled(BamConfig::new(CHANNELS).with_reduction(3).init(&device));
        parameter_gradient_check(&bam, 4, tolerance::GRADIENT, |module| {
            check(module.forward(images.clone()))
        });
        let cbam = filled(CbamConfig::new(CHANNELS).with_reduction(3).init(&device));
        parameter_gradient_check(&cbam, 4, tolerance::GRADIENT, |module| {
            check(module.forward(images.clone()))
        });
        let eca = filled(EcaConfig::new(CHANNELS).init(&device));
        parameter_gradient_check(&eca, 4, tolerance::GRADIENT, |module| {
            check(module.forward(images.clone()))
        });
    }
}

#[test]
fn what_cannot_be_built_is_refused_by_name() {
    let zero = |name| Err(AttentionConfigError::Zero { name });
    assert_eq!(BamConfig::new(0).validate(), zero("channels"));
    assert_eq!(BamConfig::new(4).with_reduction(0).validate(), zero("reduction"));
    assert_eq!(BamConfig::new(4).with_dilation(0).validate(), zero("dilation"));
    assert_eq!(CbamConfig::new(0).validate(), zero("channels"));
    assert_eq!(CbamConfig::new(4).with_reduction(0).validate(), zero("reduction"));
    assert_eq!(EcaConfig::new(0).validate(), zero("channels"));
    let message = EcaConfig::new(0).validate().unwrap_err().to_string();
    assert_eq!(message, "`channels` is 0; expected at least 1");
    // Fewer channels than the reduction leave one hidden feature.
    assert_eq!(BamConfig::new(4).validate(), Ok(()));
}
