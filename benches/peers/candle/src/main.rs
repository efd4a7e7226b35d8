//! burn-candle as a peer: a worker of the benchmark runner on burn 0.21.

#[path = "../../../src/clock.rs"]
mod clock;
#[path = "../../../src/formula.rs"]
mod formula;
#[path = "../../worker.rs"]
mod worker;

mod batch_norm;
mod convolution;
mod network;
mod training;

use anyhow::{Result, bail};
use burn::backend::Candle;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use serde_json::Value;

use crate::batch_norm::BatchNorm;
use crate::convolution::Convolution;
use crate::network::Shape;
use crate::worker::{Compute, number, serve};

fn main() -> Result<()> {
    serve(|problem| Ok((prepare(problem)?, "burn-candle 0.21 on the CPU".to_owned())))
}

fn prepare(problem: &Value) -> Result<Compute> {
    let number = |key: &str| number(problem, key);
    match problem["kind"].as_str() {
        Some("matmul") => {
            if problem["dtype"] != "f32" {
                bail!("only f32 is asked of candle here");
            }
            Ok(matmul([number("rows")?, number("inner")?, number("columns")?]))
        }
        Some("conv2d") => {
            let channel = |index: usize| problem["channels"][index].as_u64().unwrap_or(0) as usize;
            let shape = Convolution {
                batch: number("batch")?,
                channels: [channel(0), channel(1)],
                groups: number("groups")?,
                side: number("side")?,
                kernel: number("kernel")?,
                stride: number("stride")?,
            };
            Ok(match problem["pass"].as_str() {
                Some("forward") => shape.forward(),
                _ => shape.training(),
            })
        }
        Some("batch_norm") => {
            let shape = BatchNorm {
                batch: number("batch")?,
                channels: number("channels")?,
                side: number("side")?,
            };
            Ok(match problem["pass"].as_str() {
                Some("forward") => shape.forward(),
                _ => shape.training(),
            })
        }
        Some("train_step") => Ok(training::step(Shape::read(&problem["network"])?, number("batch")?)),
        Some("optimizer") => Ok(training::optimizer(Shape::read(&problem["network"])?)),
        kind => bail!("candle is not asked for {kind:?}"),
    }
}

fn load<B: Backend, const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<B, D> {
    Tensor::from_data(TensorData::new(values, shape), &B::Device::default())
}

fn numbers<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f64> {
    tensor.into_data().convert::<f64>().to_vec().expect("just converted")
}

fn matmul([rows, inner, columns]: [usize; 3]) -> Compute {
    let coarse = |name: &str, shape: [usize; 2]| {
        let values = formula::tensor(name, shape[0] * shape[1], 127.0);
        load::<Candle, 2>(values.iter().map(|value| value.round() / 128.0).collect(), shape)
    };
    let (a, b) = (coarse("a", [rows, inner]), coarse("b", [inner, columns]));
    Box::new(move |read| {
        let y = std::hint::black_box(a.clone().matmul(b.clone()));
        if read { vec![("y".into(), numbers(y))] } else { Vec::new() }
    })
}

