//! The memory of a layer on the plain path is known before it runs.

use allocation_counter::measure;
use burn::tensor::{Device, Distribution, Tensor};
use updraft_kan::slices::LayerMemory;
use updraft_kan::{Activation, KanLinear, KanLinearConfig, LayerPath, Outside};
use updraft_testing::alone;

/// The peak of a thread's allocated memory.
fn peak(mut run: impl FnMut()) -> f64 {
    // Memory that burn keeps from its first run on does not belong to the layer.
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
