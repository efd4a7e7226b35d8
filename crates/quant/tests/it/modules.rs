//! The modules of burn, one by one: what computes each, as the guide says.

use std::collections::BTreeSet;

use burn::module::Module;
use burn::nn::activation::*;
use burn::nn::attention::*;
use burn::nn::conv::*;
use burn::nn::interpolate::*;
use burn::nn::norm::*;
use burn::nn::pool::*;
use burn::nn::transformer::*;
use burn::nn::*;
use burn::tensor::{Device, Tensor, TensorData};
use updraft_quant::slices::Isa;
use updraft_quant::{
    Arithmetic, Calibration, CaptureError, Graph, QuantizedModel, Reason, Shapes, Tensors,
    Workspace,
};
use updraft_testing::{devices, scattered};

const GUIDE: &str = include_str!("../../../../docs/guide/int8.md");
const SAMPLES: usize = 6;

/// Rows of the guide's table, computed.
struct Table {
    device: Device,
    rows: Vec<String>,
    wrong: Vec<String>,
}

impl Table {
    /// Captures a module, compares it with burn in f32 and in int8, and adds its row.
    fn add<M: Module, S: Shapes, O: Tensors>(
        &mut self,
        name: &str,
        module: &M,
        shapes: S,
        forward: impl Fn(&M, S::Tensors) -> O,
    ) {
        let module = module.valid();
        let list = shapes.list();
        let graph = match Graph::try_capture(&module, shapes, &forward) {
            Ok(graph) => graph,
            Err(error) => {
                assert!(matches!(error, CaptureError::Batch { .. }), "{name}: {error}");
                return self.row(name, "refused");
            }
        };
        let numbers: Vec<Vec<f32>> = (1..)
            .zip(&list)
            .map(|(seed, shape)| scattered(seed, SAMPLES * shape.iter().product::<usize>()))
            .collect();
        let x: Vec<&[f32]> = numbers.iter().map(Vec::as_slice).collect();
        let mut data = numbers.iter().zip(&list).map(|(numbers, shape)| {
            TensorData::new(numbers.clone(), [&[SAMPLES], &shape[..]].concat())
        });
        let tensors = S::Tensors::from_data(&mut data, &self.device);
        let right = forward(&module, tensors.clone()).data();
        let right: Vec<f32> = right[0].iter::<f32>().collect();
        let in_f32 = graph.forward(&x[..]).remove(0);
        let off = furthest(&in_f32, &right);
        if off > 1e-4 {
            self.wrong.push(format!("{name} in f32: {off}"));
        }
        let model = match QuantizedModel::try_quantize(&graph, [&x[..]], Calibration::MinMax) {
            Ok(model) => model,
            Err(error) => return self.wrong.push(format!("{name}: {error:?}")),
        };
        let y: O = model.forward(Isa::detect(), tensors, &mut Workspace::new(), 1);
        let given: Vec<f32> = y.data()[0].iter::<f32>().collect();
        let off = furthest(&given, &right);
        if off > 0.1 && !JUMPS.contains(&name) {
            self.wrong.push(format!("{name} in int8: {off}\n{}", model.plan()));
        }
        let plan = model.plan();
        let kinds: BTreeSet<_> = plan.layers.iter().map(|layer| kind(layer.arithmetic)).collect();
        let kinds: Vec<&str> = kinds.into_iter().map(|(_, name)| name).collect();
        self.row(name, &kinds.join(", "));
    }

    fn row(&mut self, name: &str, runs_in: &str) {
        let name = if name.contains('`') { name.to_owned() } else { format!("`{name}`") };
        self.rows.push(format!("| {name} | {runs_in} |"));
    }
}

/// Functions with jumps: a number beside one may be on the other side as a code.
const JUMPS: [&str; 4] = ["HardShrink", "Threshold", "ThresholdedRelu", "Embedding"];

fn kind(arithmetic: Arithmetic) -> (u8, &'static str) {
    match arithmetic {
        Arithmetic::Int8 => (0, "int8"),
        Arithmetic::F32(Reason::InBurn) => (2, "burn"),
        _ => (1, "f32"),
    }
}

/// The largest difference, relative to the largest number.
fn furthest(given: &[f32], right: &[f32]) -> f32 {
    let most = right.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let off = given.iter().zip(right).map(|(a, b)| (a - b).abs());
    assert_eq!(given.len(), right.len());
    off.fold(0.0, f32::max) / most
}

fn activations(table: &mut Table) {
    let device = table.device.clone();
    macro_rules! rows {
        ($($name:literal $module:expr;)+) => {$(
            table.add($name, &$module, [4, 5, 6], |module, x: Tensor<4>| module.forward(x));
        )+};
    }
    rows! {
        "Celu" CeluConfig::new().init();
        "Elu" EluConfig::new().init();
        "Gelu" Gelu::new();
        "`Gelu` with `tanh`" Gelu::new_approximate();
        "GLU" GLU::new(1);
        "HardShrink" HardShrinkConfig::new().init();
        "HardSigmoid" HardSigmoidConfig::new().init();
        "HardSwish" HardSwish::new();
        "Hardtanh" HardtanhConfig::new().init();
        "LeakyRelu" LeakyReluConfig::new().init();
        "LogSigmoid" LogSigmoid::new();
        "Mish" Mish::new();
        "PRelu" PReluConfig::new().with_num_parameters(4).init(&device);
        "RRelu" RReluConfig::new().init();
        "Relu" Relu::new();
        "Relu6" Relu6::new();
        "Selu" Selu::new();
        "Shrink" ShrinkConfig::new().init();
        "Sigmoid" Sigmoid::new();
        "SiLU" SiLU::new();
        "SoftShrink" SoftShrinkConfig::new().init();
        "Softplus" SoftplusConfig::new().init();
        "Softsign" Softsign::new();
        "SwiGlu" SwiGluConfig::new(6, 8).init(&device);
        "Tanh" Tanh::new();
        "Tanhshrink" Tanhshrink::new();
        "Threshold" ThresholdConfig::new(0.1, 0.5).init();
        "ThresholdedRelu" ThresholdedReluConfig::new().with_alpha(0.3).init();
    }
}

fn norms_and_windows(table: &mut Table) {
    let device = table.device.clone();
    macro_rules! rows {
        ($($name:literal $module:expr, $shape:expr, $rank:literal;)+) => {$(
            table.add($name, &$module, $shape, |module, x: Tensor<$rank>| module.forward(x));
        )+};
    }
    rows! {
        "BatchNorm" BatchNormConfig::new(4).init(&device), [4, 5, 6], 4;
        "GroupNorm" GroupNormConfig::new(2, 4).init(&device), [4, 5, 6], 4;
        "InstanceNorm" InstanceNormConfig::new(4).init(&device), [4, 5, 6], 4;
        "LayerNorm" LayerNormConfig::new(6).init(&device), [5, 6], 3;
        "LocalResponseNorm" LocalResponseNormConfig::new(3).init(), [4, 5, 6], 4;
        "RmsNorm" RmsNormConfig::new(6).init(&device), [5, 6], 3;
        "Conv1d" Conv1dConfig::new(4, 5, 3).init(&device), [4, 9], 3;
        "Conv2d" Conv2dConfig::new([4, 5], [3, 3]).init(&device), [4, 7, 9], 4;
        "Conv3d" Conv3dConfig::new([2, 3], [3, 3, 3]).init(&device), [2, 5, 6, 7], 5;
        "ConvTranspose1d" ConvTranspose1dConfig::new([4, 5], 3).init(&device), [4, 9], 3;
        "ConvTranspose2d" ConvTranspose2dConfig::new([4, 5], [2, 2]).with_stride([2, 2])
            .init(&device), [4, 7, 9], 4;
        "ConvTranspose3d" ConvTranspose3dConfig::new([2, 3], [2, 2, 2]).init(&device),
            [2, 4, 5, 3], 5;
        "Linear" LinearConfig::new(6, 5).init(&device), [6], 2;
        "AdaptiveAvgPool1d" AdaptiveAvgPool1dConfig::new(3).init(), [4, 9], 3;
        "AdaptiveAvgPool2d" AdaptiveAvgPool2dConfig::new([2, 3]).init(), [4, 6, 9], 4;
        "`AdaptiveAvgPool2d` of uneven windows" AdaptiveAvgPool2dConfig::new([2, 2]).init(),
            [4, 7, 7], 4;
        "AdaptiveAvgPool3d" AdaptiveAvgPool3dConfig::new([1, 1, 1]).init(), [2, 4, 4, 4], 5;
        "AvgPool1d" AvgPool1dConfig::new(2).init(), [4, 8], 3;
        "AvgPool2d" AvgPool2dConfig::new([2, 2]).init(), [4, 8, 6], 4;
        "MaxPool1d" MaxPool1dConfig::new(2).init(), [4, 8], 3;
        "MaxPool2d" MaxPool2dConfig::new([3, 3]).with_strides([2, 2]).init(), [4, 9, 9], 4;
        "Interpolate1d" Interpolate1dConfig::new().with_output_size(Some(11)).init(), [4, 7], 3;
        "Interpolate2d" Interpolate2dConfig::new().with_output_size(Some([10, 9])).init(),
            [4, 5, 6], 4;
        "`Interpolate2d` with `Cubic`" Interpolate2dConfig::new().with_output_size(Some([10, 9]))
            .with_mode(InterpolateMode::Cubic).init(), [4, 5, 6], 4;
        "PixelShuffle" PixelShuffleConfig::new(2).init(), [8, 3, 5], 4;
        "PixelUnshuffle" PixelUnshuffleConfig::new(2).init(), [2, 6, 4], 4;
        "Fold4d" Fold4dConfig::new([6, 6], [2, 2]).with_stride([2, 2]).init(), [12, 9], 3;
        "Unfold4d" Unfold4dConfig::new([3, 3]).init(), [4, 6, 6], 4;
    }
    let deformed = DeformConv2dConfig::new([4, 5], [3, 3]).init(&device);
    table.add("DeformConv2d", &deformed, ([4, 7, 7], [18, 5, 5]), |module, (x, offset)| {
        module.forward(x, offset, None)
    });
}

fn sequences(table: &mut Table) {
    let device = table.device.clone();
    let attention = MultiHeadAttentionConfig::new(16, 2).init(&device);
    table.add("MultiHeadAttention", &attention, [5, 16], |module, x| {
        module.forward(MhaInput::self_attn(x)).context
    });
    table.add("`MultiHeadAttention` with a mask", &attention, [5, 16], |module, x: Tensor<3>| {
        let [batch, tokens, _] = x.dims();
        let mask = generate_autoregressive_mask(batch, tokens, &x.device());
        module.forward(MhaInput::self_attn(x).mask_attn(mask)).context
    });
    let cross = CrossAttentionConfig::new(16, 12, 2, 1, 8).init(&device);
    table.add("CrossAttention", &cross, ([5, 16], [6, 12]), |module, (x, context)| {
        module.forward(x, context, None)
    });
    let encoder = TransformerEncoderConfig::new(16, 32, 2, 1).init(&device);
    table.add("TransformerEncoder", &encoder, [5, 16], |module, x| {
        module.forward(TransformerEncoderInput::new(x))
    });
    let decoder = TransformerDecoderConfig::new(16, 32, 2, 1).init(&device);
    table.add("TransformerDecoder", &decoder, ([5, 16], [4, 16]), |module, (x, memory)| {
        module.forward(TransformerDecoderInput::new(x, memory))
    });
    let narrow = PositionWiseFeedForwardConfig::new(16, 32).init(&device);
    table
        .add("PositionWiseFeedForward", &narrow, [5, 16], |module, x: Tensor<3>| module.forward(x));
    let positions = PositionalEncodingConfig::new(16).init(&device);
    table.add("PositionalEncoding", &positions, [5, 16], |module, x| module.forward(x));
    let rotary = RotaryEncodingConfig::new(5, 8).init(&device);
    table.add("RotaryEncoding", &rotary, [2, 5, 8], |module, x: Tensor<4>| module.forward(x));
    let embedding = EmbeddingConfig::new(9, 4).init(&device);
    table.add("Embedding", &embedding, [5], |module, x: Tensor<2>| {
        module.forward((x.abs() * 8.0).int())
    });
    let lstm = LstmConfig::new(6, 8, true).init(&device);
    table.add("Lstm", &lstm, [4, 6], |module, x| module.forward(x, None).0);
    let lstm = BiLstmConfig::new(6, 8, true).init(&device);
    table.add("BiLstm", &lstm, [4, 6], |module, x| module.forward(x, None).0);
    let gru = GruConfig::new(6, 8, true).init(&device);
    table.add("Gru", &gru, [4, 6], |module, x| module.forward(x, None));
    let gru = BiGruConfig::new(6, 8, true).init(&device);
    table.add("BiGru", &gru, [4, 6], |module, x| module.forward(x, None).0);
    let rnn = RnnConfig::new(6, 8, true).init(&device);
    table.add("Rnn", &rnn, [4, 6], |module, x| module.forward(x, None).0);
    let rnn = BiRnnConfig::new(6, 8, true).init(&device);
    table.add("BiRnn", &rnn, [4, 6], |module, x| module.forward(x, None).0);
    let cosine = CosineSimilarityConfig::new().init();
    table.add("CosineSimilarity", &cosine, ([6], [6]), |module, (a, b)| module.forward(a, b));
    let distance = PairwiseDistanceConfig::new().init();
    table.add("PairwiseDistance", &distance, ([6], [6]), |module, (a, b)| module.forward(a, b));
}

#[test]
fn each_module_of_burn_is_computed_as_the_guide_says() {
    let device = devices()[0].clone();
    device.seed(1);
    let mut table = Table { device, rows: Vec::new(), wrong: Vec::new() };
    activations(&mut table);
    norms_and_windows(&mut table);
    sequences(&mut table);
    let missing: Vec<&String> =
        table.rows.iter().filter(|row| !GUIDE.lines().any(|line| line == **row)).collect();
    let all = table.rows.join("\n");
    assert!(table.wrong.is_empty(), "{}\n{all}", table.wrong.join("\n"));
    assert!(missing.is_empty(), "the guide lacks {missing:#?}; its table is\n{all}");
}
