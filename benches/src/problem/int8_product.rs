//! A product of bytes with packed weights: the sums, or the codes of the next layer.

use anyhow::Result;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_quant::slices::{Isa, QuantizedLinear, Scratch, reference};
use updraft_quant::{ActivationScheme, OutputScheme, QuantizedWeights};

use crate::formula;
use crate::problem::{Arithmetic, Outputs, Problem, Repeat, Site, Task, Work, numbers};
use crate::strategy::{Kernels, isa_named};

/// `[rows, inner] · [inner, columns]`, unsigned activations with a zero point, signed weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Int8Product {
    pub(crate) rows: usize,
    pub(crate) inner: usize,
    pub(crate) columns: usize,
    pub(crate) tail: Tail,
}

/// The output of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tail {
    /// They are the result, in 32 bits.
    Sums,
    /// Rectified and rounded to the int8 scheme of the output.
    Codes,
}

/// Scales are powers of two, so that no order of the factors rounds differently.
const INPUT: (f32, u8) = (1.0 / 64.0, 120);
/// A zero point at the least code: what is cut off there is cut off at zero.
const OUTPUT: (f32, u8) = (0.25, 0);
const WEIGHT_SCALES: [f32; 2] = [1.0 / 128.0, 1.0 / 256.0];

impl Int8Product {
    fn activations(&self) -> Vec<u8> {
        let values = formula::tensor("a", self.rows * self.inner, 1.0);
        values.iter().map(|value| ((value + 1.0) * 127.5).floor() as u8).collect()
    }

    /// `[columns][inner]`.
    fn weights(&self) -> Vec<i8> {
        let values = formula::tensor("b", self.columns * self.inner, 127.0);
        values.iter().map(|value| value.floor() as i8).collect()
    }

    fn weight_scales(&self) -> Vec<f32> {
        WEIGHT_SCALES.into_iter().cycle().take(self.columns).collect()
    }
}

fn input() -> Result<ActivationScheme> {
    Ok(ActivationScheme::try_new(INPUT.0, INPUT.1)?)
}

fn output() -> Result<OutputScheme> {
    Ok(OutputScheme::rectified(ActivationScheme::try_new(OUTPUT.0, OUTPUT.1)?))
}

impl Task for Int8Product {
    fn id(&self) -> String {
        let Self { rows, inner, columns, tail } = self;
        let tail = match tail {
            Tail::Sums => "sums",
            Tail::Codes => "codes",
        };
        format!("quant/{tail}-{rows}x{inner}x{columns}")
    }

    /// Sums that f32 represents exactly.
    fn small(&self) -> Problem {
        let rows = self.rows.min(37);
        Problem::Int8Product(Self { rows, inner: 67, columns: 45, tail: self.tail })
    }

    fn work(&self) -> Work {
        let Self { rows, inner, columns, tail } = *self;
        let each = match tail {
            Tail::Sums => 4,
            Tail::Codes => 1,
        };
        Work {
            operations: Some(2 * (rows * inner * columns) as u64),
            bytes: Some((rows * inner + inner * columns + each * rows * columns) as u64),
            samples: None,
        }
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::Int8
    }

    fn reference(&self) -> Result<Outputs> {
        let bias = vec![0; self.columns];
        let sums = reference::linear_sums(&self.activations(), INPUT.1, &self.weights(), &bias);
        let (output, scales) = (output()?, self.weight_scales());
        let y = sums.into_iter().enumerate().map(|(index, sum)| match self.tail {
            Tail::Sums => sum as f64,
            Tail::Codes => {
                let scale = f64::from(INPUT.0) * f64::from(scales[index % self.columns]);
                reference::code(sum, scale, output).into()
            }
        });
        Ok(Outputs::from([("y".to_owned(), y.collect())]))
    }

    /// Integers have no error.
    fn tolerance(&self) -> f64 {
        0.0
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let isa = match site.kernels {
            Kernels::Burn => return Ok(Box::new(InFloats::new(self, &site.device))),
            Kernels::Ours => Isa::detect(),
            Kernels::Forced(name) => isa_named(name)?,
        };
        let bias = vec![0; self.columns];
        let weights =
            QuantizedWeights::try_new(self.weights(), self.weight_scales(), bias, input()?)?;
        let results = self.rows * self.columns;
        let (sums, codes) = match self.tail {
            Tail::Sums => (vec![0; results], Vec::new()),
            Tail::Codes => (Vec::new(), vec![0; results]),
        };
        Ok(Box::new(InBytes {
            isa,
            layer: QuantizedLinear::new(&weights, output()?),
            x: self.activations(),
            sums,
            codes,
            scratch: Scratch::new(),
            threads: site.threads,
        }))
    }
}

/// Our kernels, into existing memory; only the requested one of the two results is allocated.
struct InBytes {
    isa: Isa,
    layer: QuantizedLinear,
    x: Vec<u8>,
    sums: Vec<i32>,
    codes: Vec<u8>,
    scratch: Scratch,
    threads: usize,
}

impl Repeat for InBytes {
    fn once(&mut self) -> Result<()> {
        let Self { isa, layer, x, sums, codes, scratch, threads } = self;
        if codes.is_empty() {
            layer.sums(*isa, x, sums, scratch, *threads);
        } else {
            layer.run(*isa, x, codes, scratch, *threads);
        }
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        let sums = self.sums.iter().copied().map(f64::from);
        let y = sums.chain(self.codes.iter().copied().map(f64::from)).collect();
        Ok(Outputs::from([("y".to_owned(), y)]))
    }
}

/// The same product in f32 by burn, on numbers that left their eight bits before the clock runs.
struct InFloats {
    x: Tensor<2>,
    w: Tensor<2>,
    /// One factor for each column, in steps of the output.
    factors: Option<Tensor<2>>,
    device: Device,
}

impl InFloats {
    fn new(problem: &Int8Product, device: &Device) -> Self {
        let Int8Product { rows, inner, columns, tail } = *problem;
        let load = |values: Vec<f32>, shape: [usize; 2]| {
            Tensor::<2>::from_data(TensorData::new(values, shape), device)
        };
        let x = problem.activations().into_iter().map(|a| f32::from(a) - f32::from(INPUT.1));
        let given = problem.weights();
        let w = (0..inner * columns).map(|i| f32::from(given[i % columns * inner + i / columns]));
        let factors = (tail == Tail::Codes).then(|| {
            let scales = problem.weight_scales();
            let factors = scales.into_iter().map(|scale| INPUT.0 * scale / OUTPUT.0).collect();
            load(factors, [1, columns])
        });
        Self {
            x: load(x.collect(), [rows, inner]),
            w: load(w.collect(), [inner, columns]),
            factors,
            device: device.clone(),
        }
    }

    fn run(&self) -> Tensor<2> {
        let sums = self.x.clone().matmul(self.w.clone());
        match &self.factors {
            Some(factors) => relu(sums * factors.clone()),
            None => sums,
        }
    }
}

impl Repeat for InFloats {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.run());
        Ok(self.device.sync()?)
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let mut y = numbers(self.run());
        if self.factors.is_some() {
            // A computation in f32 has no codes; here they are compared.
            y.iter_mut().for_each(|y| *y = y.round_ties_even().min(255.0));
        }
        Ok(Outputs::from([("y".to_owned(), y)]))
    }
}
