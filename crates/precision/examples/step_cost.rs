//! Measures the cost per step of scaling, of the finite check with the norm, and of clipping.
//!
//! ```sh
//! cargo run --example step_cost
//! ```
//!
//! On gradients of 64 tensors of 256 × 256 in f32, on flex: medians of 31 runs, with the fastest
//! and the slowest, per step and per tensor. The baseline of a copy is the least that touching
//! every number once can cost.
#![allow(clippy::print_stdout, reason = "an example speaks")]

use std::time::Instant;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use updraft_precision::{
    DynamicScale, LossScale, LossScaler, attempt, clip_global_norm, first_non_finite,
};

const TENSORS: usize = 64;
const SIDE: usize = 256;
const RUNS: usize = 31;

#[derive(Module, Debug)]
struct Layers {
    layers: Vec<Linear>,
}

fn main() {
    let device = Device::flex();
    let layer = |_| LinearConfig::new(SIDE, SIDE).with_bias(false).init(&device.clone().autodiff());
    let model = Layers { layers: (0..TENSORS).map(layer).collect() };
    // Initialized at the first use, before the clock starts.
    let _ = attempt(&model);
    let gradients = || {
        let mut gradients = GradientsParams::new();
        for layer in &model.layers {
            gradients.register(layer.weight.id, Tensor::<2>::full([SIDE, SIDE], 0.01, &device));
        }
        gradients
    };
    let scale = || LossScaler::try_new(LossScale::Dynamic(DynamicScale::default()));
    let loss = Tensor::<1>::ones([1], &device);
    println!("{TENSORS} tensors of {SIDE} x {SIDE}, f32; median (fastest to slowest) of {RUNS}");
    report("copy of every gradient (baseline)", gradients, |gradients| {
        for layer in &model.layers {
            // Freed one by one, like the terms of a norm.
            let copy = gradients.get::<2>(layer.weight.id).map(|gradient| gradient.add_scalar(1.0));
            drop(std::hint::black_box(copy));
        }
        gradients
    });
    report("scale_loss", gradients, |gradients| {
        (scale().map(|scaler| scaler.scale_loss(loss.clone())), gradients)
    });
    report("finite check and norm (one read)", gradients, |gradients| {
        clip_global_norm(gradients, &model, None)
    });
    report("the same, and clipping", gradients, |gradients| {
        clip_global_norm(gradients, &model, Some(1e-3))
    });
    report("unscale: check, norm, scale and clip", gradients, |gradients| {
        scale().map(|mut scaler| scaler.unscale(gradients, &model, Some(1e-3)))
    });
    report("attempt (statistics of its own)", gradients, |gradients| (attempt(&model), gradients));
    report("finite check, a read each tensor", gradients, |gradients| {
        (first_non_finite(&gradients, &model), gradients)
    });
}

/// Times `work`, without the creation of its gradients and the release of its results.
fn report<T>(
    what: &str,
    gradients: impl Fn() -> GradientsParams,
    mut work: impl FnMut(GradientsParams) -> T,
) {
    let mut micros: Vec<f64> = (0..=RUNS)
        .map(|_| {
            let gradients = gradients();
            let started = Instant::now();
            let result = work(gradients);
            let elapsed = started.elapsed();
            drop(std::hint::black_box(result));
            1e6 * elapsed.as_secs_f64()
        })
        .skip(1)
        .collect();
    micros.sort_by(f64::total_cmp);
    let (median, low, high) = (micros[RUNS / 2], micros[0], micros[RUNS - 1]);
    let each = median / TENSORS as f64;
    println!("{what:38} {median:9.1} us ({low:.1} to {high:.1}), {each:.2} us a tensor");
}
