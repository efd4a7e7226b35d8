//! Measures what the times of layers cost: the marks in the layers without a timer, and a timer.
//!
//! The network has small layers, of which the cost is the largest share: eight convolutions of
//! 8 channels, each with a batch normalization and an activation, of four images of 16 x 16. Steps
//! without and with a timer alternate; a step is a forward and a backward pass.
//!
//! ```text
//! cargo run -p updraft-conv --features flex,autodiff --example layer_times_cost -- [STEPS] [ROUNDS]
//! ```
#![allow(clippy::print_stdout, reason = "an example speaks")]

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use burn::nn::conv::Conv2dConfig;
use burn::nn::{BatchNormConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm, Conv2d, ConvNormActivation};
use updraft_simd::{LayerTimer, NodeLayer, time_layer};

const LAYERS: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| match arguments.next() {
        Some(text) => text.parse(),
        None => Ok(default),
    };
    let (steps, rounds) = (number(100)?, number(21)?);
    let marks = 1_000_000;
    let of_marks = timed(|| {
        for mark in 0..marks {
            let node = time_layer(mark, "convolution", || black_box(NodeLayer::current()));
            drop(black_box(node.time_backward(2)));
        }
    });
    let nanoseconds = of_marks.as_secs_f64() * 1e9 / marks as f64;
    let device = Device::flex().autodiff();
    let conv = Conv2dConfig::new([8, 8], [3, 3]).with_padding(PaddingConfig2d::Same);
    let layer = || {
        let (conv, norm) =
            (Conv2d::new(&conv, &device), BatchNorm::new(&BatchNormConfig::new(8), &device));
        ConvNormActivation::new(conv, norm, Activation::Relu)
    };
    let network: Vec<_> = (0..LAYERS).map(|_| layer()).collect();
    let images = Tensor::<4>::ones([4, 8, 16, 16], &device);
    let step = || {
        let maps = network.iter().fold(images.clone(), |maps, layer| layer.forward(maps));
        drop(black_box(maps.sum().backward()));
    };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let off = timed(|| (0..steps).for_each(|_| step()));
        let on = timed(|| {
            let mut timer = LayerTimer::start();
            for _ in 0..steps {
                step();
                black_box(timer.take());
            }
        });
        // The first round warms up.
        if round > 0 {
            without.push(off.as_secs_f64() * 1e6 / steps as f64);
            with.push(on.as_secs_f64() * 1e6 / steps as f64);
        }
    }
    // A mark of each convolution and each normalization, with a node of the graph.
    let of_step = nanoseconds * 2.0 * LAYERS as f64 * 1e-3;
    println!("{steps} steps, {rounds} rounds, median (least to most)");
    println!("a step without a timer           {} us", spread(&mut without));
    println!("a step with a timer              {} us", spread(&mut with));
    println!("marks of a layer, without timer  {nanoseconds:6.1} ns, {of_step:.3} us a step");
    Ok(())
}

fn timed(run: impl FnOnce()) -> Duration {
    let started = Instant::now();
    run();
    started.elapsed()
}

fn spread(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    format!("{median:6.1}  ({:.1} to {:.1})", values[0], values[values.len() - 1])
}
