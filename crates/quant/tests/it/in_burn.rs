//! Networks with operations that only burn computes.

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig, Conv3d, Conv3dConfig};
use burn::nn::{Linear, LinearConfig, Lstm, LstmConfig};
use burn::tensor::{Bool, Device, Distribution, Int, Tensor};
use updraft_quant::slices::Isa;
use updraft_quant::{
    Arithmetic, Calibration, Graph, QuantizedModel, Reason, Shapes, Tensors, Workspace,
};
use updraft_testing::{devices, scattered};

fn numbers<const D: usize>(seed: u32, shape: [usize; D], device: &Device) -> Tensor<D> {
    let values = scattered(seed, shape.iter().product());
    Tensor::from_data(burn::tensor::TensorData::new(values, shape), device)
}

fn reals<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().iter::<f32>().collect()
}

fn decibels(right: &[f32], given: &[f32]) -> f64 {
    let power = |values: &mut dyn Iterator<Item = f32>| -> f64 {
        values.map(|value| f64::from(value).powi(2)).sum()
    };
    let noise = power(&mut right.iter().zip(given).map(|(right, given)| right - given));
    10.0 * (power(&mut right.iter().copied()) / noise).log10()
}

/// Captures a module, and compares the graph, the quantized network and its file with burn.
fn check<M: Module, S: Shapes<Tensors = Tensor<D>>, const D: usize, const E: usize>(
    module: &M,
    shape: S,
    x: Tensor<D>,
    forward: impl Fn(&M, Tensor<D>) -> Tensor<E>,
) -> Result<QuantizedModel, Box<dyn std::error::Error>>
where
    Tensor<D>: Tensors,
    Tensor<E>: Tensors,
{
    let right = reals(&forward(module, x.clone()));
    let graph = Graph::try_capture(module, shape, &forward)?;
    let samples = reals(&x);
    let in_f32 = graph.forward(&[&samples[..]]).remove(0);
    assert!(decibels(&right, &in_f32) > 90.0, "{} dB in f32", decibels(&right, &in_f32));
    let model = QuantizedModel::try_quantize(&graph, [&samples], Calibration::MinMax)?;
    let given: Tensor<E> = model.forward(Isa::detect(), x.clone(), &mut Workspace::new(), 2);
    let given = reals(&given);
    assert!(decibels(&right, &given) > 25.0, "{} dB\n{}", decibels(&right, &given), model.plan());
    let read = QuantizedModel::try_from_bytes(&model.to_bytes())?;
    assert_eq!(read.to_bytes(), model.to_bytes());
    let again: Tensor<E> = read.forward(Isa::detect(), x, &mut Workspace::new(), 1);
    assert_eq!(reals(&again), given);
    Ok(model)
}

/// The names of the layers that burn computes.
fn in_burn(model: &QuantizedModel) -> Vec<String> {
    let plan = model.plan();
    let of_f32 = |arithmetic| arithmetic == Arithmetic::F32(Reason::InBurn);
    plan.layers.into_iter().filter(|l| of_f32(l.arithmetic)).map(|layer| layer.name).collect()
}

#[test]
fn sorted_numbers_and_indices_are_left_to_burn() -> Result<(), Box<dyn std::error::Error>> {
    let device = &devices()[0];
    device.seed(1);
    let module: (Conv2d, Linear) =
        (Conv2dConfig::new([3, 8], [3, 3]).init(device), LinearConfig::new(8, 4).init(device));
    let x = numbers(1, [7, 3, 6, 6], device);
    // The three greatest numbers of each channel, by their indices.
    let model = check(&module, [3, 6, 6], x, |module, x: Tensor<4>| {
        let x = module.0.forward(x).flatten::<3>(2, 3);
        let (greatest, indices) = x.clone().topk_with_indices(3, 2);
        let again = x.gather(2, indices);
        let mean = (greatest + again).mean_dim(2).squeeze_dim::<2>(2);
        module.1.forward(mean)
    })?;
    let left = in_burn(&model);
    assert!(left.iter().any(|name| name.starts_with("Gather")), "{left:?}");
    let plan = model.plan();
    let is_int8 = |name: &str| {
        let layer = plan.layers.iter().find(|layer| layer.name.starts_with(name));
        layer.is_some_and(|layer| layer.arithmetic == Arithmetic::Int8)
    };
    assert!(is_int8("0"), "{plan}");
    let error = model.to_onnx().expect_err("not in ONNX").to_string();
    assert!(error.contains(&left[0]), "{error}");
    Ok(())
}

#[test]
fn volumes_and_recurrent_layers_are_left_to_burn() -> Result<(), Box<dyn std::error::Error>> {
    let device = &devices()[0];
    device.seed(1);
    let volume: (Conv3d, Linear) = (
        Conv3dConfig::new([2, 4], [3, 3, 3]).init(device),
        LinearConfig::new(4 * 27, 5).init(device),
    );
    let x = numbers(1, [6, 2, 5, 5, 5], device);
    let model = check(&volume, [2, 5, 5, 5], x, |module, x: Tensor<5>| {
        module.1.forward(burn::tensor::activation::relu(module.0.forward(x)).flatten::<2>(1, 4))
    })?;
    assert_eq!(in_burn(&model), ["0"], "{}", model.plan());
    let recurrent: (Lstm, Linear) =
        (LstmConfig::new(6, 8, true).init(device), LinearConfig::new(8, 3).init(device));
    let x = numbers(2, [9, 5, 6], device);
    check(&recurrent, [5, 6], x, |module, x: Tensor<3>| {
        let (all, _) = module.0.forward(x, None);
        module.1.forward(all)
    })?;
    Ok(())
}

#[test]
fn masked_attention_is_captured() -> Result<(), Box<dyn std::error::Error>> {
    let device = &devices()[0];
    device.seed(1);
    let module: MultiHeadAttention = MultiHeadAttentionConfig::new(16, 2).init(device);
    let x = numbers(1, [6, 5, 16], device);
    check(&module, [5, 16], x, |module, x: Tensor<3>| {
        let [batch, tokens, _] = x.dims();
        let mask: Tensor<3, Bool> =
            burn::nn::attention::generate_autoregressive_mask(batch, tokens, &x.device());
        module.forward(MhaInput::self_attn(x).mask_attn(mask)).context
    })?;
    Ok(())
}

#[test]
fn settings_that_are_infinite_are_kept() -> Result<(), Box<dyn std::error::Error>> {
    let device = &devices()[0];
    device.seed(1);
    let module: Linear = LinearConfig::new(6, 6).init(device);
    let x = numbers(1, [8, 6], device);
    check(&module, [6], x, |module, x: Tensor<2>| {
        let x = module.forward(x);
        let places = Tensor::<1, Int>::arange(0..6, &x.device()).unsqueeze_dim::<2>(0);
        let is_first = places.lower_elem(2).expand([x.dims()[0], 6]);
        // Every order of the others is kept, and the first ones come last.
        let sorted = x.mask_fill(is_first, f32::INFINITY).sort(1);
        let [batch, _] = sorted.dims();
        sorted.slice([0..batch, 0..4])
    })?;
    Ok(())
}

#[test]
fn what_depends_on_the_batch_or_on_chance_is_refused_by_name() {
    let device = &devices()[0];
    device.seed(1);
    let module: Linear = LinearConfig::new(6, 6).init(device);
    let capture = |forward: &dyn Fn(&Linear, Tensor<2>) -> Tensor<2>| {
        Graph::try_capture(&module, [6], forward).expect_err("refused").to_string()
    };
    let error = capture(&|module, x| module.forward(x).sort(0));
    assert!(error.contains("(`Sort`)"), "{error}");
    assert!(error.contains("depends on the others of the batch"), "{error}");
    let error = capture(&|module, x| {
        let x = module.forward(x);
        x.clone() + Tensor::random(x.dims(), Distribution::Default, &x.device())
    });
    assert!(error.contains("Random"), "{error}");
    let error = Graph::try_capture(&module, [6], |module, x: Tensor<2>| {
        module.forward(x).argmax(1).float().cast(burn::tensor::FloatDType::F16)
    });
    let error = error.expect_err("half precision").to_string();
    assert!(error.contains("F16"), "{error}");
}
