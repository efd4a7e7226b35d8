//! Measures the memory and the time of one training step, activations kept or recomputed.
//!
//! ```sh
//! cargo run --example recompute_memory -- kept
//! cargo run --example recompute_memory -- recomputed 4
//! cargo run --example recompute_memory -- elementwise
//! ```
//!
//! One mode per process, so that each has its own peak: 16 residual stages of two
//! convolutions with batch norms, 16 channels, 32 images of 64 × 64, `AdamW`. `elementwise` is
//! burn's own strategy. The peak is that of the second step, less what the process held before it;
//! the first step, on one image, gives the optimizer its state.
#![allow(clippy::print_stdout, reason = "an example speaks")]

use std::fs;
use std::time::Instant;

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, PaddingConfig2d};
use burn::optim::AdamWConfig;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Tensor};
use updraft_trainer::{Activations, Segmented};

const STAGES: usize = 16;
const CHANNELS: usize = 16;
const BATCH: usize = 32;
const SIDE: usize = 64;

/// Steps that are timed, after the one whose memory is measured.
const TIMED: usize = 2;

#[derive(Module, Debug)]
struct Half {
    conv: Conv2d,
    norm: BatchNorm,
}

#[derive(Module, Debug)]
struct Stage {
    first: Half,
    second: Half,
}

#[derive(Module, Debug)]
struct Net {
    stages: Vec<Stage>,
}

impl Net {
    fn new(device: &Device) -> Self {
        let half = || Half {
            conv: Conv2dConfig::new([CHANNELS, CHANNELS], [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .init(device),
            norm: BatchNormConfig::new(CHANNELS).init(device),
        };
        let stages = (0..STAGES).map(|_| Stage { first: half(), second: half() }).collect();
        Self { stages }
    }

    fn stages(&self, stages: std::ops::Range<usize>, x: Tensor<4>) -> Tensor<4> {
        let half = |half: &Half, x: Tensor<4>| half.norm.forward(half.conv.forward(x));
        self.stages[stages].iter().fold(x, |x, stage| {
            let residual = half(&stage.second, relu(half(&stage.first, x.clone())));
            relu(x + residual)
        })
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let segments = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(4);
    let device = Device::flex().autodiff();
    let (activations, device) = match mode.as_str() {
        "kept" => (Activations::Kept, device),
        "elementwise" => (Activations::Kept, device.gradient_checkpointing()),
        "recomputed" if (1..=STAGES).contains(&segments) => (Activations::Recomputed, device),
        _ => {
            println!("expected `kept`, `elementwise`, or `recomputed` with 1 to {STAGES} segments");
            return;
        }
    };
    device.seed(1);
    let mut net = Net::new(&device);
    let mut optimizer = AdamWConfig::new().init();
    let boundary = |index: usize| index * STAGES / segments;
    let segmented = Segmented {
        count: segments,
        segment: &|net: &Net, index, x| net.stages(boundary(index)..boundary(index + 1), x),
        head: &|_, x: Tensor<4>| (x.powf_scalar(2.0).mean(), ()),
    };
    let mut step = |net: Net, x: Tensor<4>| {
        let result = if mode == "elementwise" {
            // The strategy belongs to the device: the graph is burn's alone.
            let loss = net.stages(0..STAGES, x).powf_scalar(2.0).mean();
            burn::optim::GradientsParams::from_grads(loss.backward(), &net)
        } else {
            segmented.backward(&net, x, activations, 3).gradients
        };
        optimizer.step(1e-3, net, result)
    };
    let images =
        |batch| Tensor::<4>::random([batch, CHANNELS, SIDE, SIDE], Distribution::Default, &device);
    net = step(net, images(1));
    let batch = images(BATCH);
    let before = status_mebibytes("VmRSS:");
    net = step(net, batch.clone());
    let peak = status_mebibytes("VmHWM:").zip(before).map(|(peak, before)| peak - before);
    let mut seconds = Vec::new();
    for _ in 0..TIMED {
        let started = Instant::now();
        net = step(net, batch.clone());
        seconds.push(started.elapsed().as_secs_f64());
    }
    drop(net);
    seconds.sort_by(f64::total_cmp);
    let memory =
        peak.map_or_else(|| "memory not known".to_owned(), |peak| format!("{peak:.0} MiB"));
    println!(
        "{mode}: {memory} above {:.0} MiB, step {:.2} s ({:.2} to {:.2})",
        before.unwrap_or(f64::NAN),
        seconds.iter().sum::<f64>() / TIMED as f64,
        seconds[0],
        seconds[TIMED - 1],
    );
}

/// A line of `/proc/self/status`, in MiB; `None` on systems without it.
fn status_mebibytes(key: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}
