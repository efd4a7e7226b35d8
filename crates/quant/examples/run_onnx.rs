//! Runs an ONNX file that onnxruntime has quantized, on numbers of a file, and prints the time, for
//! `crates/quant/tests/import_answers.py` to compare.
//!
//! `cargo run --release -p updraft-quant --example run_onnx -- MODEL.onnx INPUT.f32 OUTPUT.f32`; the
//! batch may follow, which is 32 otherwise.

#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::error::Error;
use std::fs;
use std::time::Instant;

use updraft_quant::slices::Isa;
use updraft_quant::{Port, QuantizedModel, Workspace};

/// Timed runs of the first batch.
const RUNS: usize = 21;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (files, batch) = match arguments.as_slice() {
        [model, input, output] => ([model, input, output], 32),
        [model, input, output, batch] => ([model, input, output], batch.parse()?),
        _ => return Err("expected a model, its input and its output, and a batch if any".into()),
    };
    let [model, input, output] = files;
    let model = QuantizedModel::from_onnx(&fs::read(model)?)?;
    let bytes = fs::read(input)?;
    let x: Vec<f32> =
        bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let of_sample = model.inputs()[0].numbers();
    let of_answer = model.outputs().next().map(Port::numbers).ok_or("a model has an output")?;
    let samples = x.len() / of_sample;
    if samples * of_sample != x.len() || samples == 0 {
        return Err(format!("{} numbers are no samples of {of_sample}", x.len()).into());
    }
    let (isa, mut workspace) = (Isa::detect(), Workspace::new());
    let mut y = vec![0.0; samples * of_answer];
    model.run(isa, &x, &mut y, &mut workspace, 1);
    let answers: Vec<u8> = y.iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(output, answers)?;

    let batch: usize = samples.min(batch);
    let (first, of_batch) = (&x[..batch * of_sample], &mut y[..batch * of_answer]);
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            model.run(isa, first, of_batch, &mut workspace, 1);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    print!("{}", model.plan());
    println!("median_ms {:.4} of a batch of {batch} with {isa}", times[RUNS / 2]);
    Ok(())
}
