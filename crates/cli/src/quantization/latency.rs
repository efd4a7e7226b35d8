//! The latency of a batch, in f32 and in int8.

use std::time::Instant;

use serde::Serialize;
use updraft_quant::slices::Isa;
use updraft_quant::{QuantizedModel, Workspace};
use updraft_run::Quantizable;

/// Timed runs of each batch size, and warm-up runs.
const TIMED: usize = 40;
const WARM_UP: usize = 5;

/// The latency of a batch, in both.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Latency {
    pub(super) batch: usize,
    pub(super) f32_ms: Quantiles,
    pub(super) int8_ms: Quantiles,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Quantiles {
    pub(super) p50: f64,
    pub(super) p95: f64,
}

/// Measures the latency of a batch in burn's f32 and in int8, alternating.
pub(super) fn latency(
    network: &dyn Quantizable,
    (model, isa, threads): (&QuantizedModel, Isa, usize),
    batch: usize,
    inputs: &[f32],
) -> Latency {
    let len = batch * network.input_shape().iter().product::<usize>();
    let x: Vec<f32> = inputs.iter().copied().cycle().take(len).collect();
    let mut y: Vec<Vec<f32>> =
        model.outputs().map(|port| vec![0.0; batch * port.numbers()]).collect();
    let mut y: Vec<&mut [f32]> = y.iter_mut().map(Vec::as_mut_slice).collect();
    let mut workspace = Workspace::new();
    let (mut of_f32, mut of_int8) = (Vec::new(), Vec::new());
    for run in 0..WARM_UP + TIMED {
        // Both from host memory to host memory.
        let started = Instant::now();
        let _ = network.outputs(&x);
        let took = started.elapsed().as_secs_f64() * 1e3;
        let started = Instant::now();
        model.run_all(isa, &[&x[..]], &mut y, &mut workspace, threads);
        if run >= WARM_UP {
            of_f32.push(took);
            of_int8.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    Latency { batch, f32_ms: quantiles(of_f32), int8_ms: quantiles(of_int8) }
}

fn quantiles(mut values: Vec<f64>) -> Quantiles {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    Quantiles { p50: at(0.5), p95: at(0.95) }
}
