//! Vision transformers written with burn's own layers, captured without a change.

use burn::module::{Module, Param};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Tensor};
use updraft_quant::slices::Isa;
use updraft_quant::{
    Arithmetic, Calibration, Comparison, Graph, Quantization, QuantizedModel, Reason, Workspace,
};
use updraft_testing::{devices, scattered};

/// Channels of a token, heads, and patches of a side.
const WIDTH: usize = 48;
const HEADS: usize = 3;
const SIDE: usize = 5;

fn numbers<const D: usize>(seed: u32, shape: [usize; D], device: &Device) -> Tensor<D> {
    let values = scattered(seed, shape.iter().product());
    Tensor::from_data(burn::tensor::TensorData::new(values, shape), device)
}

/// Attention and a perceptron, each behind a norm and beside a residual connection.
#[derive(Module, Debug)]
struct Block {
    attention_norm: LayerNorm,
    attention: MultiHeadAttention,
    norm: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

impl Block {
    fn new(device: &Device) -> Self {
        Self {
            attention_norm: LayerNormConfig::new(WIDTH).init(device),
            attention: MultiHeadAttentionConfig::new(WIDTH, HEADS).init(device),
            norm: LayerNormConfig::new(WIDTH).init(device),
            wide: LinearConfig::new(WIDTH, 4 * WIDTH).init(device),
            narrow: LinearConfig::new(4 * WIDTH, WIDTH).init(device),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let normed = self.attention_norm.forward(x.clone());
        let x = x + self.attention.forward(MhaInput::self_attn(normed)).context;
        let hidden = gelu(self.wide.forward(self.norm.forward(x.clone())));
        x + self.narrow.forward(hidden)
    }
}

/// Dosovitskiy et al. 2020, arXiv:2010.11929.
#[derive(Module, Debug)]
struct VisionTransformer {
    patches: Conv2d,
    class_token: Param<Tensor<3>>,
    positions: Param<Tensor<3>>,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl VisionTransformer {
    fn new(device: &Device) -> Self {
        let mut norm = LayerNormConfig::new(WIDTH).init(device);
        norm.gamma = Param::from_tensor(numbers(5, [WIDTH], device) * 0.3 + 1.0);
        let tokens = SIDE * SIDE + 1;
        Self {
            patches: Conv2dConfig::new([3, WIDTH], [4, 4]).with_stride([4, 4]).init(device),
            class_token: Param::from_tensor(numbers(6, [1, 1, WIDTH], device)),
            positions: Param::from_tensor(numbers(7, [1, tokens, WIDTH], device) * 0.5),
            blocks: (0..2).map(|_| Block::new(device)).collect(),
            norm,
            head: LinearConfig::new(WIDTH, 10).init(device),
        }
    }

    fn tokens(&self, x: Tensor<4>) -> Tensor<3> {
        let x = self.patches.forward(x).flatten::<3>(2, 3).swap_dims(1, 2);
        let class = self.class_token.val().expand([x.dims()[0] as i64, 1, -1]);
        let mut x = Tensor::cat(vec![class, x], 1) + self.positions.val();
        for block in &self.blocks {
            x = block.forward(x);
        }
        self.norm.forward(x)
    }

    /// The classes by the class token.
    fn by_token(&self, x: Tensor<4>) -> Tensor<2> {
        let x = self.tokens(x);
        let batch = x.dims()[0];
        self.head.forward(x.slice([0..batch, 0..1, 0..WIDTH]).reshape([batch, WIDTH]))
    }

    /// The classes by the mean of all tokens.
    fn by_mean(&self, x: Tensor<4>) -> Tensor<2> {
        self.head.forward(self.tokens(x).mean_dim(1).squeeze_dim::<2>(1))
    }
}

fn decibels(right: &[f32], given: &[f32]) -> f64 {
    let power = |values: &mut dyn Iterator<Item = f32>| -> f64 {
        values.map(|value| f64::from(value).powi(2)).sum()
    };
    let noise = power(&mut right.iter().zip(given).map(|(right, given)| right - given));
    10.0 * (power(&mut right.iter().copied()) / noise).log10()
}

fn reals<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().iter::<f32>().collect()
}

/// Captures, quantizes, writes and reads a network, and compares it with burn.
fn check(
    device: &Device,
    forward: impl Fn(&VisionTransformer, Tensor<4>) -> Tensor<2> + Copy,
) -> Result<QuantizedModel, Box<dyn std::error::Error>> {
    device.seed(1);
    let module = VisionTransformer::new(device).valid();
    let side = 4 * SIDE;
    let graph = Graph::try_capture(&module, [3, side, side], forward)?;
    let x = numbers(2, [6, 3, side, side], device);
    let right = reals(&forward(&module, x.clone()));
    let in_f32 = graph.forward(&reals(&x)[..]).remove(0);
    assert!(decibels(&right, &in_f32) > 90.0, "{} dB in f32", decibels(&right, &in_f32));

    let set = reals(&numbers(1, [32, 3, side, side], device));
    let model = QuantizedModel::try_quantize(&graph, [set], Calibration::MinMax)?;
    let y: Tensor<2> = model.forward(Isa::detect(), x.clone(), &mut Workspace::new(), 1);
    assert!(decibels(&right, &reals(&y)) > 20.0, "{} dB", decibels(&right, &reals(&y)));
    let read = QuantizedModel::try_from_bytes(&model.to_bytes())?;
    assert_eq!(read.to_bytes(), model.to_bytes());
    let again: Tensor<2> = read.forward(Isa::detect(), x, &mut Workspace::new(), 2);
    assert_eq!(reals(&again), reals(&y));
    Ok(model)
}

#[test]
fn a_vision_transformer_runs_in_int8_but_for_its_attention()
-> Result<(), Box<dyn std::error::Error>> {
    for device in devices() {
        let model = check(&device, VisionTransformer::by_token)?;
        let plan = model.plan();
        for layer in &plan.layers {
            let in_f32 = ["product", "softmax", "extend", "shift"];
            let last = layer.name.rsplit('+').next().unwrap_or_default();
            let is_f32 = in_f32.iter().any(|kind| last.starts_with(kind));
            let expected = match is_f32 {
                true => Arithmetic::F32(Reason::NoInt8Form),
                false => Arithmetic::Int8,
            };
            assert_eq!(layer.arithmetic, expected, "{plan}");
        }
        // 2·26²·48 of a block's multiply-adds are products of two activations.
        let tokens = SIDE * SIDE + 1;
        let products = 2 * 2 * tokens * tokens * WIDTH;
        let linears = 2 * 12 * tokens * WIDTH * WIDTH;
        // The scale of the last norm is a layer of its own, since only the class token is read.
        let patches = SIDE * SIDE * 16 * 3 * WIDTH + 10 * WIDTH + tokens * WIDTH;
        let share = 1.0 - products as f64 / (products + linears + patches) as f64;
        assert!((plan.int8_share() - share).abs() < 1e-9, "{} and {share}", plan.int8_share());
    }
    Ok(())
}

#[test]
fn the_mean_of_tokens_is_a_mean_of_pixels() -> Result<(), Box<dyn std::error::Error>> {
    let model = check(&devices()[0], VisionTransformer::by_mean)?;
    let plan = model.plan();
    assert!(plan.layers.iter().any(|layer| layer.name == "mean1"), "{plan}");
    Ok(())
}

/// The axes of images turned, cut and joined in several ways.
#[test]
fn turned_cut_and_joined_axes_are_those_of_burn() -> Result<(), Box<dyn std::error::Error>> {
    type Forward = fn(&Vec<Linear>, Tensor<4>) -> Tensor<2>;
    let device = &devices()[0];
    let cases: [Forward; 11] = [
        |_, x| x.swap_dims(2, 3).flatten(1, 3),
        |_, x| x.permute([0, 2, 3, 1]).flatten(1, 3),
        |_, x| {
            let batch = x.dims()[0];
            x.slice([0..batch, 1..3, 0..4, 2..5]).flatten(1, 3)
        },
        |_, x| {
            let [a, b] = [x.clone().narrow(2, 0, 1), x.narrow(2, 3, 1)];
            (a + b).flatten(1, 3)
        },
        |_, x| {
            let turned = x.clone().swap_dims(2, 3).swap_dims(2, 3);
            Tensor::cat(vec![x, turned * 2.0], 2).flatten(1, 3)
        },
        |_, x| Tensor::cat(vec![x.clone(), x.tanh()], 3).flatten(1, 3),
        |_, x| {
            let batch = x.dims()[0];
            // A product of the rows of an image with those of another channel.
            let rows = x.reshape([batch, 3, 4, 5]);
            let all = rows.clone().matmul(rows.swap_dims(2, 3)) * 0.5;
            burn::tensor::activation::softmax(all, 3).flatten(1, 3)
        },
        |_, x| {
            let channels = x.clone().mean_dim(3).mean_dim(2);
            (channels + x.mean_dim(1)).flatten(1, 3)
        },
        |_, x| (x.clone().mean_dim(1) * x).flatten(1, 3),
        |_, x| {
            // Means over the channels of pixels that are one axis with the batch.
            let batch = x.dims()[0];
            let pixels = x.permute([0, 2, 3, 1]).reshape([batch * 20, 3]);
            pixels.mean_dim(1).reshape([batch, 20])
        },
        |_, x| {
            let batch = x.dims()[0];
            x.permute([0, 2, 1, 3]).reshape([batch, 12, 5]).swap_dims(1, 2).flatten(1, 2)
        },
    ];
    for (case, forward) in cases.into_iter().enumerate() {
        let graph = Graph::try_capture(&Vec::new(), [3, 4, 5], forward);
        let graph = graph.map_err(|error| format!("case {case}: {error}"))?;
        let x = numbers(3, [7, 3, 4, 5], device);
        let right = reals(&forward(&Vec::new(), x.clone()));
        let given = graph.forward(&reals(&x)[..]).remove(0);
        assert!(decibels(&right, &given) > 100.0, "case {case}");
        let by = Quantization::new(Calibration::MinMax);
        let model = QuantizedModel::try_quantize(&graph, [reals(&x)], by)?;
        let comparison = Comparison::new(&graph, &model, [reals(&x)], Isa::detect());
        let noise = comparison.outputs_db[0];
        assert!(noise > 30.0, "case {case}: {noise} dB\n{}", model.plan());
    }
    Ok(())
}
