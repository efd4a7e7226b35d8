//! A block of a transformer, and its attention alone.

use anyhow::Result;
use burn::tensor::{DType, Device, Gradients, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_simd::Products;
use updraft_transformer::{bias_gelu, layer_norm, linear, plain, self_attention};

use crate::formula;
use crate::problem::{Outputs, Pass, Problem, Repeat, Site, Task, Work};
use crate::strategy::Kernels;

const EPSILON: f64 = 1e-6;

/// What of a block is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Self-attention, from queries, keys and values side by side.
    Attention,
    /// A block with normalization before attention and perceptron.
    Block,
}

/// A part of a block of a transformer over one sequence, of tensors in f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Transformer {
    pub(crate) part: Part,
    pub(crate) tokens: usize,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) pass: Pass,
    /// Whether linear layers and attention multiply numbers rounded to bf16.
    pub(crate) bf16: bool,
}

/// The parameters of a block: names, and the sizes of weights or the length of a vector.
fn parameters(embedding: usize) -> [(&'static str, [usize; 2]); 11] {
    let hidden = 4 * embedding;
    [
        ("gamma1", [1, embedding]),
        ("beta1", [1, embedding]),
        ("gamma2", [1, embedding]),
        ("beta2", [1, embedding]),
        ("qkv_weight", [embedding, 3 * embedding]),
        ("qkv_bias", [1, 3 * embedding]),
        ("out_weight", [embedding, embedding]),
        ("out_bias", [1, embedding]),
        ("up_weight", [embedding, hidden]),
        ("up_bias", [1, hidden]),
        ("down_weight", [hidden, embedding]),
    ]
}

impl Transformer {
    const fn embedding(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Numbers of an input token.
    const fn input(&self) -> usize {
        match self.part {
            Part::Attention => 3 * self.embedding(),
            Part::Block => self.embedding(),
        }
    }

    /// Input, factors of the loss and parameters, on a device.
    fn operands(&self, device: &Device, dtype: DType) -> Operands {
        let sequence = |name: &str, numbers: usize| {
            let values = formula::tensor(name, self.tokens * numbers, 1.0);
            let data = TensorData::new(values, [1, self.tokens, numbers]);
            Tensor::from_data(data, (device, dtype))
        };
        let of_block = match self.part {
            Part::Attention => Vec::new(),
            Part::Block => parameters(self.embedding()).to_vec(),
        };
        let parameters = of_block.into_iter().map(|(name, [rows, columns])| {
            let scale = if rows > 1 { formula::weight_scale(rows) } else { 0.5 };
            let shift = if name.starts_with("gamma") { 1.0 } else { 0.0 };
            let values = formula::tensor(name, rows * columns, scale);
            let values: Vec<f32> = values.into_iter().map(|value| value + shift).collect();
            let data = TensorData::new(values, [rows, columns]);
            (name, Tensor::from_data(data, (device, dtype)))
        });
        Operands {
            heads: self.heads,
            x: sequence("x", self.input()),
            g: sequence("g", self.embedding()),
            parameters: parameters.collect(),
        }
    }
}

impl Task for Transformer {
    fn id(&self) -> String {
        let Self { part, tokens, heads, head_dim, pass, bf16 } = self;
        let bf16 = if *bf16 { "-bf16" } else { "" };
        let part = match part {
            Part::Attention => "attention",
            Part::Block => "block",
        };
        format!("transformer/{part}-{}{bf16}-n{tokens}-{heads}x{head_dim}", pass.name())
    }

    fn small(&self) -> Problem {
        // Heads of 20 numbers are too small for attention in bf16.
        let head_dim = if self.bf16 { 28 } else { 20 };
        Problem::Transformer(Self { tokens: 37, heads: 3, head_dim, ..self.clone() })
    }

    fn work(&self) -> Work {
        let (tokens, embedding) = (self.tokens as u64, self.embedding() as u64);
        let attention = [2, 5].map(|products| products * 2 * tokens * tokens * embedding);
        let linear = match self.part {
            Part::Attention => 0,
            Part::Block => 2 * tokens * 12 * embedding * embedding,
        };
        let operations = match self.pass {
            Pass::Forward => attention[0] + linear,
            Pass::Training => attention[0] + attention[1] + 3 * linear,
        };
        Work { operations: Some(operations), bytes: None, samples: Some(1) }
    }

    /// By burn's operations in f64.
    fn reference(&self) -> Result<Outputs> {
        let device = Device::flex().autodiff();
        let operands = self.operands(&device, DType::F64);
        let (is_ours, products) = (false, Products::F32);
        OnBurn { operands, is_ours, products, part: self.part, pass: self.pass, device }.outputs()
    }

    fn tolerance(&self) -> f64 {
        // Eight bits of each factor, in four products one after the other.
        if self.bf16 { 3e-2 } else { 1e-5 }
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let device = self.pass.device(&site.device);
        let operands = self.operands(&device, DType::F32);
        let is_ours = site.kernels == Kernels::Ours;
        let products = if self.bf16 { Products::Bf16 } else { Products::F32 };
        let Self { part, pass, .. } = *self;
        Ok(Box::new(OnBurn { operands, is_ours, products, part, pass, device }))
    }
}

#[derive(Clone)]
struct Operands {
    heads: usize,
    x: Tensor<3>,
    g: Tensor<3>,
    parameters: Vec<(&'static str, Tensor<2>)>,
}

impl Operands {
    fn tracked(mut self) -> Self {
        self.x = self.x.require_grad();
        for (_, parameter) in &mut self.parameters {
            *parameter = parameter.clone().require_grad();
        }
        self
    }

    fn weight(&self, name: &str) -> Tensor<2> {
        let mut all = self.parameters.iter();
        all.find(|(other, _)| *other == name).expect("a parameter of a block").1.clone()
    }

    fn vector(&self, name: &str) -> Tensor<1> {
        self.weight(name).squeeze_dim(0)
    }

    /// The block by our operations or by burn's.
    fn block(&self, ours: bool) -> Tensor<3> {
        let norm = if ours { layer_norm } else { plain::layer_norm };
        let linear = if ours { linear } else { plain::linear };
        let attend = if ours { self_attention } else { plain::self_attention };
        let gelu = if ours { bias_gelu } else { plain::bias_gelu };
        let norm = |x, which: u8| {
            let [gamma, beta] =
                ["gamma", "beta"].map(|name| self.vector(&format!("{name}{which}")));
            norm(x, gamma, beta, EPSILON)
        };
        let x = self.x.clone();
        let qkv =
            linear(norm(x.clone(), 1), self.weight("qkv_weight"), Some(self.vector("qkv_bias")));
        let attended = attend(qkv, self.heads);
        let x = x + linear(attended, self.weight("out_weight"), Some(self.vector("out_bias")));
        let hidden = linear(norm(x.clone(), 2), self.weight("up_weight"), None);
        x + linear(gelu(hidden, self.vector("up_bias")), self.weight("down_weight"), None)
    }

    fn attention(&self, ours: bool) -> Tensor<3> {
        if ours {
            self_attention(self.x.clone(), self.heads)
        } else {
            plain::self_attention(self.x.clone(), self.heads)
        }
    }
}

struct OnBurn {
    operands: Operands,
    is_ours: bool,
    products: Products,
    part: Part,
    pass: Pass,
    device: Device,
}

impl OnBurn {
    fn run(&self) -> (Tensor<3>, Option<(Operands, Gradients)>) {
        let part = |operands: &Operands| match self.part {
            Part::Attention => operands.attention(self.is_ours),
            Part::Block => operands.block(self.is_ours),
        };
        let compute = |operands: &Operands| self.products.scope(|| part(operands));
        match self.pass {
            Pass::Forward => (compute(&self.operands), None),
            Pass::Training => {
                let operands = self.operands.clone().tracked();
                let y = compute(&operands);
                let gradients = (y.clone() * operands.g.clone()).sum().backward();
                (y.inner(), Some((operands, gradients)))
            }
        }
    }
}

impl Repeat for OnBurn {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.run());
        self.device.sync()?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let (y, training) = self.run();
        let mut outputs = Outputs::from([("y".to_owned(), super::numbers(y))]);
        if let Some((operands, gradients)) = training {
            let takes_part = "it takes part in the loss";
            let dx = operands.x.grad(&gradients).expect(takes_part);
            outputs.insert("dx".to_owned(), super::numbers(dx));
            for (name, parameter) in &operands.parameters {
                let gradient = parameter.grad(&gradients).expect(takes_part);
                outputs.insert(format!("d{name}"), super::numbers(gradient));
            }
        }
        Ok(outputs)
    }
}
