//! The estimated memory of layers, compared with measurements.

use allocation_counter::measure;
use burn::module::Module;
use burn::tensor::{Device, Distribution, Tensor};
use updraft_kan::slices::LayerMemory;
use updraft_kan::{
    Activation, BaseBranch, KanConv2d, KanConv2dConfig, KanLinear, KanLinearConfig, LayerPath,
    Outside,
};
use updraft_testing::alone;

/// The peak memory that a thread has allocated.
fn peak(mut run: impl FnMut()) -> f64 {
    // burn keeps memory from its first run, which does not belong to the layer.
    run();
    measure(run).bytes_max as f64
}

#[test]
fn the_plain_path_takes_what_was_estimated() {
    let _alone = alone();
    let wide = KanLinearConfig::new(64, 10);
    let bare = |config: &KanLinearConfig| {
        config.clone().with_activation(None::<Activation>).with_scaler(false)
    };
    for (batch, config) in [
        (256, wide.clone()),
        (256, bare(&wide)),
        (256, wide.clone().with_intervals(20)),
        (256, wide.clone().with_degree(2)),
        (256, bare(&wide).with_degree(1)),
        (128, wide.clone().with_degree(4)),
        (256, wide.clone().with_outside(Outside::Clamp)),
        (512, bare(&KanLinearConfig::new(32, 96))),
        (16, KanLinearConfig::new(128, 256)),
        (200, KanLinearConfig::new(4, 512)),
    ] {
        let near = |what: &str, estimate: usize, measured: f64| {
            let ratio = estimate as f64 / measured;
            assert!((0.9..1.1).contains(&ratio), "{what}, batch {batch}, {config}: {ratio}");
        };
        let inputs = config.in_features;
        let layer = |device: &Device| config.init(device).with_path(LayerPath::Plain);
        let (device, shape) = (Device::flex(), [batch, inputs]);
        let own: KanLinear = layer(&device);
        let memory: LayerMemory = own.memory(batch, 1);

        let x = Tensor::<2>::random(shape, Distribution::Default, &device);
        let forward = peak(|| drop(own.forward(x.clone())));
        near("forward", memory.outputs + memory.forward_scratch, forward);

        let device = device.autodiff();
        let own = layer(&device);
        let x = Tensor::<2>::random(shape, Distribution::Default, &device).require_grad();
        let training = peak(|| {
            let y = own.forward(x.clone());
            drop((y.clone().sum().backward(), y));
        });
        let estimate = memory.outputs + memory.gradients + memory.backward_scratch;
        near("training", estimate, training);
    }
}

/// The peak memory of one thread with new scratch, for a forward pass and for a training step of a
/// layer.
fn peaks<const D: usize, F: Fn(Tensor<D>) -> Tensor<D>>(
    shape: [usize; D],
    layer: impl Fn(&Device) -> F + Sync,
) -> [f64; 2] {
    [false, true].map(|is_trained| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        pool.install(|| {
            let device = if is_trained { Device::flex().autodiff() } else { Device::flex() };
            let (layer, x) =
                (layer(&device), Tensor::random(shape, Distribution::Default, &device));
            let run = || {
                if !is_trained {
                    return drop(layer(x.clone()));
                }
                let y = layer(x.clone().require_grad());
                drop((y.clone().sum().backward(), y));
            };
            measure(run).bytes_max as f64
        })
    })
}

fn assert_near(what: &str, memory: LayerMemory, [forward, training]: [f64; 2]) {
    let LayerMemory { outputs, gradients, forward_scratch, backward_scratch, .. } = memory;
    let ratio = (outputs + forward_scratch) as f64 / forward;
    assert!((0.9..1.1).contains(&ratio), "{what}, forward: {ratio}");
    // Beside the outputs stand their gradients; one scratch serves both passes.
    let without = 2 * outputs + gradients;
    let least = 0.9 * (without + forward_scratch.max(backward_scratch)) as f64;
    let most = 1.1 * (without + forward_scratch + backward_scratch) as f64;
    assert!((least..most).contains(&training), "{what}, training: {least} to {most}, {training}");
}

#[test]
fn the_kernels_of_convolutions_take_what_was_estimated() {
    let _alone = alone();
    let device = Device::flex();
    if LayerPath::of(&device) == LayerPath::Plain {
        return;
    }
    let conv = |channels: [usize; 2]| KanConv2dConfig::new(channels, [3, 3]);
    for ([batch, side], config) in [
        ([8, 32], conv([64, 64])),
        ([4, 40], conv([32, 16]).with_stride([2, 2]).with_padding([1, 1])),
        ([4, 24], conv([16, 32]).with_base_branch(BaseBranch::ActivationOfConv)),
    ] {
        let measured = peaks([batch, config.channels[0], side, side], |device| {
            let layer = config.init(device).materialize();
            move |x: Tensor<4>| layer.forward(x)
        });
        let layer: KanConv2d = config.init(&device);
        let memory = layer.memory(batch, [side; 2], 1).expect("images larger than the kernel");
        assert_near(&config.to_string(), memory.expect("kernels"), measured);
    }
}
