//! Networks captured from burn's modules, compared with burn.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::{elu, gelu, hard_swish, relu, sigmoid, silu, softmax};
use burn::tensor::{Device, Distribution, Tensor};
use updraft_conv::{Activation, ConvNormActivation};
use updraft_quant::slices::Isa;
use updraft_quant::{
    Arithmetic, Calibration, CaptureError, Comparison, Graph, Quantization, QuantizedModel, Reason,
    Workspace,
};
use updraft_testing::{devices, scattered};

fn images(seed: u32, count: usize, device: &Device) -> Tensor<4> {
    let data = burn::tensor::TensorData::new(scattered(seed, count * 3 * 144), [count, 3, 12, 12]);
    Tensor::from_data(data, device)
}

fn slice(tensor: &Tensor<4>) -> Vec<f32> {
    tensor.to_data().iter::<f32>().collect()
}

fn conv(channels: [usize; 2], kernel: usize, groups: usize, device: &Device) -> Conv2d {
    let padding = kernel / 2;
    Conv2dConfig::new(channels, [kernel, kernel])
        .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
        .with_groups(groups)
        .init(device)
}

/// A norm with the statistics of training.
fn norm(channels: usize, seed: u32, device: &Device) -> BatchNorm {
    let mut norm = BatchNormConfig::new(channels).init(device);
    let some = |seed, offset: f32| {
        let values: Vec<f32> = scattered(seed, channels).iter().map(|v| offset + 0.3 * v).collect();
        Tensor::<1>::from_floats(values.as_slice(), device)
    };
    norm.gamma = Param::from_tensor(some(seed, 1.0));
    norm.beta = Param::from_tensor(some(seed + 1, 0.1));
    norm.running_mean.update(some(seed + 2, 0.0));
    norm.running_var.update(some(seed + 3, 0.6));
    norm
}

/// A depthwise-separable network with squeeze and excitation, and activations of all kinds.
#[derive(Module, Debug)]
struct Separable {
    stem: Conv2d,
    stem_norm: BatchNorm,
    depthwise: Conv2d,
    norm: BatchNorm,
    squeeze: Linear,
    excite: Linear,
    pointwise: Conv2d,
    block: ConvNormActivation,
    pool: MaxPool2d,
    mean: AdaptiveAvgPool2d,
    head: Linear,
}

impl Separable {
    fn new(device: &Device) -> Self {
        let block = conv([24, 16], 1, 1, device).into();
        Self {
            stem: conv([3, 16], 3, 1, device),
            stem_norm: norm(16, 1, device),
            depthwise: conv([16, 16], 3, 16, device),
            norm: norm(16, 5, device),
            squeeze: LinearConfig::new(16, 4).init(device),
            excite: LinearConfig::new(4, 16).init(device),
            pointwise: conv([16, 8], 1, 1, device),
            block: ConvNormActivation::new(block, norm(16, 9, device).into(), Activation::Elu),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            mean: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            head: LinearConfig::new(16, 10).init(device),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = silu(self.stem_norm.forward(self.stem.forward(x * 0.5 + 0.25)));
        let deep = self.norm.forward(self.depthwise.forward(x.clone()));
        let [batch, channels, ..] = deep.dims();
        let squeezed = self.mean.forward(deep.clone()).reshape([batch, channels]);
        let gate = sigmoid(self.excite.forward(relu(self.squeeze.forward(squeezed))));
        let deep = hard_swish(deep * gate.reshape([batch, channels, 1, 1]));
        let wide = Tensor::cat(vec![gelu(self.pointwise.forward(deep.clone())), deep + x], 1);
        let block = self.pool.forward(self.block.forward(elu(wide, 0.7)));
        let features = self.mean.forward(block).reshape([batch, 16]);
        self.head.forward(features)
    }
}

/// Signal to noise in decibels.
fn decibels(right: &[f32], given: &[f32]) -> f64 {
    let signal: f64 = right.iter().map(|&right| f64::from(right).powi(2)).sum();
    let noise: f64 =
        right.iter().zip(given).map(|(&right, &given)| f64::from(right - given).powi(2)).sum();
    10.0 * (signal / noise).log10()
}

#[test]
fn a_separable_network_of_burn_runs_in_int8() -> Result<(), Box<dyn std::error::Error>> {
    for device in devices() {
        device.seed(1);
        // Pending updates of the running statistics change only the first outputs.
        let module = Separable::new(&device).valid();
        let before = module.forward(images(3, 2, &device)).to_data();
        let graph = Graph::try_capture(&module, [3, 12, 12], Separable::forward)?;
        assert_eq!(module.forward(images(3, 2, &device)).to_data(), before, "the module is kept");
        let set = slice(&images(1, 64, &device));
        let model = QuantizedModel::try_quantize(&graph, [set], Calibration::MinMax)?;
        assert!(model.plan().is_int8(), "{}", model.plan());
        let x = images(2, 40, &device);
        let right: Vec<f32> = module.forward(x.clone()).to_data().iter::<f32>().collect();
        let y: Tensor<2> = model.forward(Isa::detect(), x.clone(), &mut Workspace::new(), 1);
        assert_eq!(y.dims(), [40, 10]);
        let given: Vec<f32> = y.to_data().iter::<f32>().collect();
        assert!(decibels(&right, &given) > 25.0, "{} dB", decibels(&right, &given));
        // The graph itself, in f32, is burn's network.
        let comparison = Comparison::new(&graph, &model, [slice(&x)], Isa::detect());
        let answer = comparison.layers.last().expect("layers").sqnr_db;
        assert!((answer - decibels(&right, &given)).abs() < 0.5, "{answer} dB");
        let names: Vec<&str> = comparison.layers.iter().map(|layer| layer.name.as_str()).collect();
        assert!(names.contains(&"depthwise+norm"), "{names:?}");
        assert!(names.contains(&"block.conv+block.norm"), "{names:?}");
    }
    Ok(())
}

#[test]
fn layers_without_an_int8_kernel_run_in_f32_with_a_reason() -> Result<(), Box<dyn std::error::Error>>
{
    let device = &devices()[0];
    device.seed(1);
    let module = (conv([3, 8], 3, 1, device), conv([8, 4], 3, 1, device));
    let forward = |module: &(Conv2d, Conv2d), x: Tensor<4>| {
        softmax(module.1.forward(softmax(module.0.forward(x), 1)), 1)
    };
    let graph = Graph::try_capture(&module, [3, 12, 12], forward)?;
    let set = slice(&images(1, 32, device));
    let by = Quantization::new(Calibration::MinMax).keep(["1"]);
    let model = QuantizedModel::try_quantize(&graph, [&set], by)?;
    let plan = model.plan();
    let arithmetic: Vec<Arithmetic> = plan.layers.iter().map(|layer| layer.arithmetic).collect();
    let none = Arithmetic::F32(Reason::NoInt8Form);
    assert_eq!(arithmetic, [Arithmetic::Int8, none, Arithmetic::F32(Reason::Kept), none], "{plan}");
    let share = plan.int8_share();
    assert!((share - 216.0 / (216.0 + 288.0)).abs() < 1e-12, "{share}");
    let x = images(2, 5, device);
    let right: Vec<f32> = forward(&module, x.clone()).to_data().iter::<f32>().collect();
    let y: Tensor<4> = model.forward(Isa::detect(), x, &mut Workspace::new(), 1);
    let given: Vec<f32> = y.to_data().iter::<f32>().collect();
    assert!(decibels(&right, &given) > 40.0, "{} dB", decibels(&right, &given));
    let read = QuantizedModel::try_from_bytes(&model.to_bytes())?;
    assert_eq!(read.to_bytes(), model.to_bytes());
    assert_eq!(read.plan(), plan);
    let unknown = Quantization::new(Calibration::MinMax).keep(["2"]);
    let error = QuantizedModel::try_quantize(&graph, [&set], unknown).expect_err("no such layer");
    assert!(error.to_string().contains("no layer is named `2`"), "{error}");
    Ok(())
}

#[test]
fn what_a_graph_does_not_have_is_named_with_its_place() {
    let device = &devices()[0];
    device.seed(1);
    let module = conv([3, 8], 3, 1, device);
    let error =
        Graph::try_capture(&module, [3, 12, 12], |module, x| module.forward(x).swap_dims(0, 1));
    let error = error.expect_err("no turned batch").to_string();
    assert!(error.contains("operation 1 (`SwapDims`)"), "{error}");
    let error = Graph::try_capture(&module, [3, 12, 12], |module, x| {
        let noise = Tensor::<1>::random([1], Distribution::Default, &x.device());
        module.forward(x) * noise.reshape([1, 1, 1, 1])
    });
    assert!(error.expect_err("no dice").to_string().contains("Random"));
    let error = Graph::try_capture(&module, [3, 12, 12], |module, x| {
        module.forward(x).cast(burn::tensor::FloatDType::BF16)
    });
    let error = error.expect_err("no bf16").to_string();
    assert!(error.contains("operation 1 (`Cast`)") && error.contains("BF16"), "{error}");
    let error = Graph::try_capture(&module, [3, 12, 12], |_, x| x.zeros_like());
    assert_eq!(error.expect_err("constant"), CaptureError::Constant);
    let error = Graph::try_capture(&module, [3, 0, 12], |module, x| module.forward(x));
    assert!(error.is_err());
}

#[test]
fn parameters_that_are_not_finite_are_named() {
    let device = &devices()[0];
    device.seed(1);
    let mut module = conv([3, 8], 3, 1, device);
    let bad = module.weight.val().slice_fill([4..5, 0..1, 0..1, 0..1], f32::NAN);
    module.weight = Param::from_tensor(bad);
    let error = Graph::try_capture(&module, [3, 12, 12], |module, x| module.forward(x));
    let error = error.expect_err("NaN");
    assert!(error.to_string().contains("operation 0 (`Conv2d`)"), "{error}");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(cause.contains("weights 108 is NaN"), "{cause}");
}

#[test]
fn linear_layers_of_tokens_are_captured_in_either_of_burns_forms()
-> Result<(), Box<dyn std::error::Error>> {
    let device = &devices()[0];
    device.seed(1);
    // burn multiplies the tokens of two samples as one matrix, those of three one by one.
    for tokens in 1..9 {
        let module: Linear = LinearConfig::new(6, 8).init(device);
        let forward = |module: &Linear, x: Tensor<3>| module.forward(x);
        let graph = Graph::try_capture(&module, [tokens, 6], forward)?;
        let set = scattered(1, 4 * tokens * 6);
        let x = burn::tensor::TensorData::new(set.clone(), [4, tokens, 6]);
        let y = forward(&module, Tensor::from_data(x, device)).to_data();
        let right: Vec<f32> = y.iter::<f32>().collect();
        let given = graph.forward(&set).remove(0);
        assert!(decibels(&right, &given) > 90.0, "{tokens}: {}", decibels(&right, &given));
    }
    Ok(())
}

#[test]
fn a_network_that_differs_between_batches_is_refused() {
    let device = &devices()[0];
    device.seed(1);
    let module = conv([3, 8], 3, 1, device);
    let error = Graph::try_capture(&module, [3, 12, 12], |module, x| {
        let x = if x.dims()[0] > 2 { x * 2.0 } else { x };
        module.forward(x)
    });
    let error = error.expect_err("another graph").to_string();
    assert!(error.contains("differs between batches of 2 and 3 images"), "{error}");
    let error = Graph::try_capture(&module, [3, 12, 12], |module, x| {
        let scale = 1.0 / x.dims()[0] as f32;
        relu(module.forward(x) * scale)
    });
    let error = error.expect_err("another number").to_string();
    assert!(error.contains("operation 1 (`MulScalar`), after layer"), "{error}");
}
