//! Matrix product: `y = a · b`.

use anyhow::{Result, ensure};
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::formula;
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work};

/// `[rows, inner] · [inner, columns]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Matmul {
    pub(crate) rows: usize,
    pub(crate) inner: usize,
    pub(crate) columns: usize,
    pub(crate) dtype: Number,
}

/// The dtype of inputs and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Number {
    F32,
    Bf16,
}

impl Number {
    const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

impl Matmul {
    /// Entries of `a` and `b` that every dtype represents: multiples of 1/128 fit bf16's 8 bits.
    fn inputs(&self) -> [Vec<f32>; 2] {
        let coarse = |name, count| -> Vec<f32> {
            formula::tensor(name, count, 127.0).iter().map(|value| value.round() / 128.0).collect()
        };
        [coarse("a", self.rows * self.inner), coarse("b", self.inner * self.columns)]
    }
}

impl Task for Matmul {
    fn id(&self) -> String {
        let Self { rows, inner, columns, dtype } = self;
        format!("matmul/{}-{rows}x{inner}x{columns}", dtype.name())
    }

    fn small(&self) -> Problem {
        Problem::Matmul(Self { rows: 37, inner: 67, columns: 29, dtype: self.dtype })
    }

    fn work(&self) -> Work {
        let Self { rows, inner, columns, dtype } = self;
        let entries = rows * inner + inner * columns + rows * columns;
        Work {
            operations: Some(2 * (rows * inner * columns) as u64),
            bytes: Some((entries * dtype.bytes()) as u64),
            samples: None,
        }
    }

    fn reference(&self) -> Result<Outputs> {
        let [a, b] = self.inputs();
        let mut y = vec![0.0; self.rows * self.columns];
        for row in 0..self.rows {
            for column in 0..self.columns {
                y[row * self.columns + column] = (0..self.inner)
                    .map(|k| {
                        f64::from(a[row * self.inner + k]) * f64::from(b[k * self.columns + column])
                    })
                    .sum();
            }
        }
        Ok(Outputs::from([("y".to_owned(), y)]))
    }

    fn tolerance(&self) -> f64 {
        match self.dtype {
            Number::F32 => 1e-5,
            // The result's own rounding is 2⁻⁹; a sum kept in bf16 would be far off.
            Number::Bf16 => 4e-3,
        }
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let dtype = match self.dtype {
            Number::F32 => FloatDType::F32,
            Number::Bf16 => FloatDType::BF16,
        };
        ensure!(site.device.supports_dtype(dtype), "this device has no arithmetic in {dtype:?}");
        let [a, b] = self.inputs();
        let load = |values: Vec<f32>, shape: [usize; 2]| {
            Tensor::<2>::from_data(TensorData::new(values, shape), &site.device).cast(dtype)
        };
        Ok(Box::new(OnBurn {
            a: load(a, [self.rows, self.inner]),
            b: load(b, [self.inner, self.columns]),
            device: site.device.clone(),
        }))
    }
}

struct OnBurn {
    a: Tensor<2>,
    b: Tensor<2>,
    device: Device,
}

impl Repeat for OnBurn {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.a.clone().matmul(self.b.clone()));
        self.device.sync()?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let y = self.a.clone().matmul(self.b.clone());
        Ok(Outputs::from([("y".to_owned(), super::numbers(y))]))
    }
}
