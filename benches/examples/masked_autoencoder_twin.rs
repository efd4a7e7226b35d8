//! Trains a masked autoencoder, and writes its initial weights, batches, masks and losses for
//! `peers/masked_autoencoder.py`, which trains the same network in PyTorch; both print the median
//! time of a step.
//!
//! ```text
//! cargo run --release -p updraft-bench --example masked_autoencoder_twin -- OUT [IMAGES.tif …]
//! ```
//!
//! Without images the crops are of generated cells. A TIFF is a stack of frames of one channel,
//! normalized by its own mean and standard deviation. `OUT` receives `.npy` files.
#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{
    CellsConfig, Loader, NormalizeChannels, OpenConfig, Order, PageAxis, PatchConfig, SampleConfig,
    VolumePair, VolumePatches, VolumeScale, VolumeTarget, draw_cells, open_volume,
};
use updraft_models::{
    DecoderConfig, DecoderKind, EncoderConfig, MaskedAutoencoderConfig, PatchMasks,
    patches_of_images, random_order,
};
use updraft_trainer::OptimizerConfig;

const STEPS: usize = 200;
const BATCH: usize = 64;
const SIDE: usize = 64;
const PATCH: usize = 8;
/// The rate rises linearly to the first over as many steps as the second.
const RATE: (f64, usize) = (1e-3, 50);
const SEED: u64 = 1;

fn main() -> Result<()> {
    updraft_simd::start_pool()?;
    let mut arguments = std::env::args().skip(1);
    let out = PathBuf::from(arguments.next().context("expected a folder for the files")?);
    let images: Vec<String> = arguments.collect();
    fs::create_dir_all(&out)?;
    let crops = crops(&images)?;
    let device = Device::flex().autodiff();
    for (name, kind) in [
        ("self-attention", DecoderKind::SelfAttention),
        ("cross-attention", DecoderKind::CrossAttention),
    ] {
        device.seed(SEED);
        train(&out.join(name), kind, &crops, &device)?;
    }
    Ok(())
}

/// The batches of crops that every network is trained on, one after the other.
fn crops(images: &[String]) -> Result<Vec<Vec<f32>>> {
    let mut pairs = Vec::new();
    for path in images {
        let config = OpenConfig { pages: PageAxis::Frames, series: 0 };
        pairs.push(VolumePair { input: open_volume(path, &config)?, target: VolumeTarget::None });
    }
    if pairs.is_empty() {
        let config = CellsConfig { sides: vec![256, 256], seed: SEED };
        for field in 0..8 {
            let input = Arc::new(draw_cells(&config, field)?.transmitted);
            pairs.push(VolumePair { input, target: VolumeTarget::None });
        }
    }
    let each = (STEPS * BATCH).div_ceil(pairs.len());
    let config =
        PatchConfig::new(&[SIDE; 2], each).with_scales(VolumeScale::ZScore, VolumeScale::ZScore);
    let patches = VolumePatches::try_new(pairs, config, &mut |_| {})?;
    let config = SampleConfig::new(BATCH)
        .with_normalize(NormalizeChannels::default())
        .with_order(Order::Shuffled)
        .with_seed(SEED);
    let loader = Loader::from_samples(Arc::new(patches), config)?;
    loader.epoch(0).take(STEPS).map(|batch| Ok(batch?.values().to_vec())).collect()
}

fn train(out: &Path, kind: DecoderKind, crops: &[Vec<f32>], device: &Device) -> Result<()> {
    let channels = crops[0].len() / (BATCH * SIDE * SIDE);
    let encoder = EncoderConfig::new(channels, &[SIDE; 2], &[PATCH; 2]).with_blocks(128, 4, 4);
    let config = MaskedAutoencoderConfig::new(encoder)
        .with_decoder(DecoderConfig::new(kind).with_blocks(64, 2, 4));
    let mut net = config.init(device);
    fs::create_dir_all(out)?;
    let mut weights = Weights { out, path: Vec::new(), failed: Ok(()) };
    net.visit(&mut weights);
    weights.failed?;
    let optimizer = OptimizerConfig::Adamw { weight_decay: 0.05, betas: [0.9, 0.95] };
    let mut optimizer = optimizer.init();
    let (mut losses, mut orders) = (Vec::new(), Vec::new());
    let mut times = Vec::new();
    for (step, values) in crops.iter().enumerate() {
        let begun = Instant::now();
        let of_batch: Vec<Vec<usize>> = (0..BATCH)
            .map(|at| random_order((step * BATCH + at) as u64, config.encoder.patches()))
            .collect();
        let masks = PatchMasks::new(&of_batch, config.visible(), device);
        orders.extend(of_batch.into_iter().flatten().map(|patch| patch as f32));
        let data = TensorData::new(values.clone(), [BATCH, channels, SIDE, SIDE]);
        let patches = patches_of_images(Tensor::<4>::from_data(data, device), &[PATCH; 2]);
        let predicted = net.forward(masks.take_visible(patches.clone()), &masks);
        let loss = (predicted - masks.take_masked(patches)).square().mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &net);
        let rate = RATE.0 * ((step + 1) as f64 / RATE.1 as f64).min(1.0);
        net = optimizer.step(rate, net, gradients);
        losses.push(loss.into_scalar::<f32>());
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        if (step + 1).is_multiple_of(50) {
            println!("{kind:?}: step {}, loss {:.4}", step + 1, losses[step]);
        }
    }
    times.sort_by(f64::total_cmp);
    println!("{kind:?}: median step {:.1} ms", times[times.len() / 2]);
    let tokens = config.encoder.patches();
    write(&out.join("images.npy"), &[crops.len(), BATCH, channels, SIDE, SIDE], &crops.concat())?;
    write(&out.join("orders.npy"), &[crops.len(), BATCH, tokens], &orders)?;
    write(&out.join("losses.npy"), &[crops.len()], &losses)
}

/// Writes every parameter as `PATH.npy`.
struct Weights<'a> {
    out: &'a Path,
    path: Vec<String>,
    failed: Result<()>,
}

impl ModuleVisitor for Weights<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let values: Vec<f32> = param.val().into_data().iter().collect();
        let path = self.out.join(format!("{}.npy", self.path.join(".")));
        if self.failed.is_ok() {
            self.failed = write(&path, &param.val().dims(), &values);
        }
    }
}

/// Writes numbers in version 1.0 of the format of `NumPy`.
fn write(path: &Path, shape: &[usize], values: &[f32]) -> Result<()> {
    let shape: String = shape.iter().map(|side| format!("{side}, ")).collect();
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
    // The header with its length and a line feed ends at a multiple of 64 bytes.
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(format!("{header:<width$}\n", width = length - 1).into_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}
