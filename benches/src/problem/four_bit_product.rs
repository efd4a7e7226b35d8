//! A product of f32 activations with weights of four bits, converted as they are multiplied.

use anyhow::Result;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_quant::WeightFormat;
use updraft_quant::slices::{FourBitLinear, Isa};

use crate::formula;
use crate::problem::{Arithmetic, Outputs, Problem, Repeat, Site, Task, Work, numbers};
use crate::strategy::{Kernels, isa_named};

/// `[rows, inner] · [inner, columns]`, with a scale for each 64 weights of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FourBitProduct {
    pub(crate) rows: usize,
    pub(crate) inner: usize,
    pub(crate) columns: usize,
}

/// Weights of a group.
const GROUP: u32 = 64;

impl FourBitProduct {
    fn activations(&self) -> Vec<f32> {
        formula::tensor("a", self.rows * self.inner, 1.0)
    }

    /// The layer, from weights `[columns][inner]`.
    fn layer(&self) -> Result<FourBitLinear> {
        let weights = formula::tensor("b", self.columns * self.inner, 1.0);
        let format = WeightFormat::try_new(4)?.try_groups_of(GROUP)?;
        Ok(FourBitLinear::try_new(&weights, &vec![0.0; self.columns], format)?)
    }
}

impl Task for FourBitProduct {
    fn id(&self) -> String {
        let Self { rows, inner, columns } = self;
        format!("quant/four-bits-{rows}x{inner}x{columns}")
    }

    fn small(&self) -> Problem {
        Problem::FourBitProduct(Self { rows: self.rows.min(3), inner: 203, columns: 45 })
    }

    fn work(&self) -> Work {
        let Self { rows, inner, columns } = *self;
        Work {
            operations: Some(2 * (rows * inner * columns) as u64),
            bytes: Some((4 * rows * (inner + columns) + inner * columns / 2) as u64),
            samples: None,
        }
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::F32
    }

    fn reference(&self) -> Result<Outputs> {
        let (x, weights) = (self.activations(), self.layer()?.weights());
        let result = |at: usize| {
            let (row, column) = (at / self.columns, at % self.columns);
            let products = x[row * self.inner..][..self.inner]
                .iter()
                .zip(&weights[column * self.inner..][..self.inner]);
            products.map(|(&x, &w)| f64::from(x) * f64::from(w)).sum()
        };
        let y = (0..self.rows * self.columns).map(result).collect();
        Ok(Outputs::from([("y".to_owned(), y)]))
    }

    /// Sums of codes are up to fifteen times those of weights before their offset is subtracted.
    fn tolerance(&self) -> f64 {
        1e-4
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let isa = match site.kernels {
            Kernels::Burn => return Ok(Box::new(InFloats::new(self, &site.device)?)),
            Kernels::Ours => Isa::detect(),
            Kernels::Forced(name) => isa_named(name)?,
        };
        Ok(Box::new(InFourBits {
            isa,
            layer: self.layer()?,
            x: self.activations(),
            y: vec![0.0; self.rows * self.columns],
            threads: site.threads,
        }))
    }
}

/// Our kernel, into existing memory.
struct InFourBits {
    isa: Isa,
    layer: FourBitLinear,
    x: Vec<f32>,
    y: Vec<f32>,
    threads: usize,
}

impl Repeat for InFourBits {
    fn once(&mut self) -> Result<()> {
        self.layer.run(self.isa, &self.x, &mut self.y, self.threads);
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        let y = self.y.iter().copied().map(f64::from).collect();
        Ok(Outputs::from([("y".to_owned(), y)]))
    }
}

/// The same product in f32 by burn, with weights that left their four bits before the clock runs.
struct InFloats {
    x: Tensor<2>,
    w: Tensor<2>,
    device: Device,
}

impl InFloats {
    fn new(problem: &FourBitProduct, device: &Device) -> Result<Self> {
        let FourBitProduct { rows, inner, columns } = *problem;
        let load = |values: Vec<f32>, shape: [usize; 2]| {
            Tensor::<2>::from_data(TensorData::new(values, shape), device)
        };
        let weights = problem.layer()?.weights();
        let w = (0..inner * columns).map(|i| weights[i % columns * inner + i / columns]).collect();
        Ok(Self {
            x: load(problem.activations(), [rows, inner]),
            w: load(w, [inner, columns]),
            device: device.clone(),
        })
    }
}

impl Repeat for InFloats {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.x.clone().matmul(self.w.clone()));
        Ok(self.device.sync()?)
    }

    fn outputs(&mut self) -> Result<Outputs> {
        Ok(Outputs::from([("y".to_owned(), numbers(self.x.clone().matmul(self.w.clone())))]))
    }
}
