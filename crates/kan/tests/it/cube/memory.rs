//! The memory of a training step on a GPU.

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use updraft_kan::{KanConv2dConfig, KanLinearConfig, LayerPath};
use updraft_testing::gpus;

use super::case::Case;

/// Bytes that a device's allocator has reserved, and those of live tensors, after all work is done.
fn memory(device: &Device) -> [u64; 2] {
    device.sync().expect("the device works");
    let usage = device.memory_pool_usage().expect("backends of CubeCL report it");
    [usage.bytes_reserved, usage.bytes_in_use]
}

/// The memory of a training step by a path beyond the parameters, the input and the gradients:
/// what is kept after the forward pass, and how much the allocator's pools grow in the whole step.
fn step(device: &Device, case: &Case, path: LayerPath) -> [u64; 2] {
    let layer = case.layer(device).with_path(path);
    let shape = [case.batch, case.config.in_features];
    let x = Tensor::<2>::from_data(TensorData::new(case.x.clone(), shape), device).require_grad();
    device.sync().expect("the device works");
    device.memory_cleanup();
    let [reserved, in_use] = memory(device);
    let y = layer.forward(x.clone());
    let outputs = (4 * case.batch * case.config.out_features) as u64;
    let kept = memory(device)[1] - in_use - outputs;
    let gradients = y.sum().backward();
    let grown = memory(device)[0] - reserved;
    let results = 4 * (case.x.len() + case.spline.len()) as u64
        + [&case.base, &case.scaler]
            .into_iter()
            .flatten()
            .map(|edges| 4 * edges.len() as u64)
            .sum::<u64>();
    // A buffer that could not be allocated is an error at the first read of what depends on it.
    x.grad(&gradients).expect("the input requires it").sum().into_data();
    drop(gradients);
    device.memory_cleanup();
    [kept, grown.saturating_sub(results)]
}

#[test]
fn a_training_step_keeps_no_bases_and_needs_a_tenth_of_the_plain_paths_memory() {
    check_step(256, 256);
}

#[test]
#[ignore = "slow: minutes on an emulated device"]
fn a_training_step_of_a_large_batch_needs_a_tenth_of_the_plain_paths_memory() {
    // At 8192 samples burn's operations need buffers that lavapipe cannot allocate.
    check_step(8192, 2048);
}

/// A step of 512 inputs and outputs over 20 intervals, by the kernels and by burn's operations.
///
/// The memory of the latter grows with the batch, so that a smaller one is a lower bound.
#[expect(clippy::print_stdout, reason = "the figures behind the bound")]
fn check_step(batch: usize, plain_batch: usize) {
    for device in gpus().into_iter().map(Device::autodiff) {
        let config = KanLinearConfig::new(512, 512).with_intervals(20);
        let case = Case::new(config.clone(), batch);
        // The kernels are compiled, and constants of the pools allocated, in a first step.
        step(&device, &case, LayerPath::Cube);
        let [kept, needed] = step(&device, &case, LayerPath::Cube);
        let [plain_kept, plain_needed] =
            step(&device, &Case::new(config, plain_batch), LayerPath::Plain);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "kept for the backward pass: kernels {:.1} MiB, plain {:.1} MiB; \
             a step: kernels {:.1} MiB, plain {:.1} MiB; {batch} and {plain_batch} samples",
            mib(kept),
            mib(plain_kept),
            mib(needed),
            mib(plain_needed),
        );
        // The allocator aligns the outputs.
        assert!(kept < 1024, "{kept} bytes");
        assert!(10 * needed <= plain_needed);
    }
}

#[test]
fn a_convolution_keeps_its_images_alone_and_needs_less_than_the_plain_path() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let config = KanConv2dConfig::new([16, 16], [3, 3]).with_padding([1, 1]);
        let conv = config.with_intervals(20).init(&device);
        let shape = [8, 16, 16, 16];
        let step = |path: LayerPath| {
            let conv = conv.clone().with_path(path);
            let x = Tensor::<4>::random(shape, Distribution::Default, &device).require_grad();
            device.memory_cleanup();
            let [reserved, in_use] = memory(&device);
            let y = conv.forward(x.clone());
            let outputs = 4 * shape.iter().product::<usize>() as u64;
            let kept = memory(&device)[1] - in_use - outputs;
            let gradients = y.sum().backward();
            let grown = memory(&device)[0].saturating_sub(reserved);
            x.grad(&gradients).expect("the input requires it").sum().into_data();
            drop(gradients);
            device.memory_cleanup();
            [kept, grown]
        };
        step(LayerPath::Cube);
        let [kept, grown] = step(LayerPath::Cube);
        let [plain_kept, plain_grown] = step(LayerPath::Plain);
        println!("kept {kept} bytes, plain {plain_kept}; a step {grown}, plain {plain_grown}");
        assert!(kept < 1024, "{kept} bytes");
        assert!(grown < plain_grown, "{grown} and {plain_grown} bytes");
    }
}
