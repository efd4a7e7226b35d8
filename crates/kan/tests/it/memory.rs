//! The memory of a layer is known before it runs.

use allocation_counter::measure;
use burn::module::Module;
use burn::tensor::{Device, Distribution, Tensor};
use updraft_kan::slices::LayerMemory;
use updraft_kan::{
    Activation, Basis, BasisConv2dConfig, BasisLinear, BasisLinearConfig, Centers, KanLinear,
    KanLinearConfig, LayerPath, Outside,
};
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

/// Functions in closed form, few and many.
fn bases() -> Vec<Basis> {
    let of = |functions| Centers { functions, low: -2.0, high: 2.0 };
    vec![
        Basis::Gaussian(of(8)),
        Basis::Gaussian(of(20)),
        Basis::Rswaf(of(5)),
        Basis::MexicanHat(of(8)),
        Basis::Chebyshev { degree: 7 },
        Basis::Legendre { degree: 12 },
        Basis::Fourier { frequencies: 4 },
        Basis::Rational,
    ]
}

#[test]
fn the_plain_path_of_functions_takes_what_was_estimated() {
    let _alone = alone();
    for basis in bases() {
        let wide = BasisLinearConfig::new(64, 10, basis);
        for (batch, config) in [
            (256, wide.clone()),
            (512, wide.clone().with_train_functions(false).with_activation(None)),
            (256, wide.clone().with_norm(true)),
            (512, BasisLinearConfig::new(16, 256, basis)),
            (200, BasisLinearConfig::new(4, 512, basis)),
            (300, BasisLinearConfig::new(40, 64, basis).with_activation(None).with_bias(false)),
        ] {
            let near = |what: &str, estimate: usize, measured: f64| {
                let ratio = estimate as f64 / measured;
                assert!((0.9..1.1).contains(&ratio), "{what}, batch {batch}, {config}: {ratio}");
            };
            let layer = |device: &Device| config.init(device).with_path(LayerPath::Plain);
            let (device, shape) = (Device::flex(), [batch, config.in_features]);
            let own: BasisLinear = layer(&device);
            let memory: LayerMemory = own.memory(batch, 1);
            assert_eq!(memory.parameters, 4 * own.num_params());
            let x = Tensor::<2>::random(shape, Distribution::Default, &device);
            let forward = peak(|| drop(own.forward(x.clone())));
            near("forward", memory.outputs + memory.forward_scratch, forward);

            let device = device.autodiff();
            let own = layer(&device);
            let memory = own.memory(batch, 1);
            let x = Tensor::<2>::random(shape, Distribution::Default, &device).require_grad();
            let training = peak(|| {
                let y = own.forward(x.clone());
                drop((y.clone().sum().backward(), y));
            });
            let estimate = memory.outputs + memory.gradients + memory.backward_scratch;
            near("training", estimate, training);
        }
    }
}

#[test]
fn the_kernels_of_functions_allocate_results_and_what_a_norm_needs() {
    let _alone = alone();
    for (basis, norm) in bases().into_iter().flat_map(|basis| [(basis, false), (basis, true)]) {
        let (batch, config) = (600, BasisLinearConfig::new(64, 48, basis).with_norm(norm));
        let device = Device::flex().autodiff();
        let own = config.init(&device);
        let memory = own.memory(batch, 1);
        let x = Tensor::<2>::random([batch, 64], Distribution::Default, &device).require_grad();
        // The scratch is there since the first run; a test of the kernels measures it.
        let training = peak(|| {
            let y = own.forward(x.clone());
            drop((y.clone().sum().backward(), y));
        });
        let of_norm = if norm { 4 * 4 * batch * 64 } else { 0 };
        // The gradient of the outputs is as large as they are.
        let estimate = 2 * memory.outputs + memory.gradients + of_norm;
        let ratio = estimate as f64 / training;
        assert!((0.9..1.1).contains(&ratio), "{config}: {ratio}");
    }
}

#[test]
fn convolutions_of_functions_estimate_their_kernels_only() {
    let basis = Basis::Chebyshev { degree: 3 };
    let conv = BasisConv2dConfig::new([3, 8], [3, 3], basis).init(&Device::flex());
    let memory = conv.memory(4, [12, 12], 1).unwrap().expect("kernels compute it");
    assert_eq!(memory.parameters, 4 * conv.num_params());
    assert_eq!(memory.outputs, 4 * 4 * 8 * 10 * 10);
    assert_eq!(memory.gradients, memory.parameters + 4 * 4 * 3 * 12 * 12);
    assert!(conv.memory(4, [2, 12], 1).is_err());
    assert_eq!(conv.with_path(LayerPath::Plain).memory(4, [12, 12], 1), Ok(None));
}
