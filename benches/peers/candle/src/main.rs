//! burn-candle as a peer: a worker of the benchmark runner on burn 0.21.
//!
//! It answers the requests of `benches/src/protocol.rs` for the problems it knows.

#[path = "../../../src/clock.rs"]
mod clock;
#[path = "../../../src/formula.rs"]
mod formula;

use std::io::{BufRead, Write, stdin, stdout};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use burn::backend::{Autodiff, Candle};
use burn::tensor::backend::Backend;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Tensor, TensorData};
use serde_json::{Value, json};

/// A result by its name.
type Named = (&'static str, Vec<f64>);

/// Computes once; the results are read back only where they are asked for.
type Compute = Box<dyn Fn(bool) -> Vec<Named>>;

fn main() -> Result<()> {
    let mut prepared: Option<(Compute, PathBuf)> = None;
    for line in stdin().lock().lines() {
        let answer = serde_json::from_str(&line?)
            .map_err(Into::into)
            .and_then(|request| answer(&request, &mut prepared))
            .unwrap_or_else(|error| json!({ "answer": "failed", "reason": format!("{error:#}") }));
        let mut out = stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(request: &Value, prepared: &mut Option<(Compute, PathBuf)>) -> Result<Value> {
    if request["ask"] == "prepare" {
        let folder = request["folder"].as_str().context("no folder")?;
        *prepared = Some((prepare(&request["problem"])?, folder.into()));
        return Ok(json!({ "answer": "prepared", "about": "burn-candle 0.21 on the CPU" }));
    }
    let Some((compute, folder)) = prepared else { bail!("nothing is prepared") };
    if request["ask"] == "prove" {
        let results = compute(true);
        for (name, values) in &results {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            std::fs::write(folder.join(format!("{name}.f64")), bytes)?;
        }
        let names: Vec<_> = results.iter().map(|(name, _)| name).collect();
        return Ok(json!({ "answer": "proved", "outputs": names }));
    }
    let times = request["times"].as_u64().context("no number of times")?;
    let (wall_ns, cpu_ns) = clock::time(times, || {
        std::hint::black_box(compute(false));
        Ok(())
    })?;
    let answer = json!({
        "answer": "repeated", "wall_ns": wall_ns, "cpu_ns": cpu_ns, "peak_bytes": null,
    });
    Ok(answer)
}

fn prepare(problem: &Value) -> Result<Compute> {
    let number = |key: &str| -> Result<usize> {
        let value = problem[key].as_u64().with_context(|| format!("no `{key}`"))?;
        Ok(usize::try_from(value)?)
    };
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
        if read { vec![("y", numbers(y))] } else { Vec::new() }
    })
}

/// A square kernel over square images, padded by half the kernel.
struct Convolution {
    batch: usize,
    channels: [usize; 2],
    groups: usize,
    side: usize,
    kernel: usize,
    stride: usize,
}

impl Convolution {
    fn inputs<B: Backend>(&self) -> [Tensor<B, 4>; 3] {
        let [input, output] = self.channels;
        let out = (self.side + 2 * (self.kernel / 2) - self.kernel) / self.stride + 1;
        let inputs = input / self.groups;
        let scale = formula::weight_scale(inputs * self.kernel * self.kernel);
        [
            ("x", [self.batch, input, self.side, self.side], 1.0),
            ("w", [output, inputs, self.kernel, self.kernel], scale),
            ("g", [self.batch, output, out, out], 1.0),
        ]
        .map(|(name, shape, scale)| {
            load(formula::tensor(name, shape.iter().product(), scale), shape)
        })
    }

    fn options(&self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.kernel / 2; 2], [1, 1], self.groups)
    }

    fn forward(&self) -> Compute {
        let [x, w, _] = self.inputs::<Candle>();
        let options = self.options();
        Box::new(move |read| {
            let y = conv2d(x.clone(), w.clone(), None, options.clone());
            let y = std::hint::black_box(y);
            if read { vec![("y", numbers(y))] } else { Vec::new() }
        })
    }

    fn training(&self) -> Compute {
        let [x, w, g] = self.inputs::<Autodiff<Candle>>();
        let options = self.options();
        Box::new(move |read| {
            let (x, w) = (x.clone().require_grad(), w.clone().require_grad());
            let y = conv2d(x.clone(), w.clone(), None, options.clone());
            let mut gradients = (y.clone() * g.clone()).sum().backward();
            let dx = x.grad_remove(&mut gradients).expect("x takes part in the loss");
            let dw = w.grad_remove(&mut gradients).expect("w takes part in the loss");
            if read {
                vec![("y", numbers(y.inner())), ("dx", numbers(dx)), ("dw", numbers(dw))]
            } else {
                Vec::new()
            }
        })
    }
}
