//! The kernels for GPUs, on every device that is found, against the reference in f64.

use burn::module::Param;
use burn::tensor::{Device, DeviceType, Tensor, TensorData};
use updraft_kan::slices::reference::{self, Parameters};
use updraft_kan::{
    Activation, KanConv1dConfig, KanLinear, KanLinearConfig, LayerPath, Outside, PlainReason,
};
use updraft_testing::{Alone, alone};

/// The largest error allowed, relative to the largest value: f32 sums, and exponentials of drivers.
const CLOSE: f64 = 1e-5;

/// The lower bound of the largest value: terms are about 1, and their sum may cancel.
const LEAST_SCALE: f64 = 1.0;

/// The devices of the compiled backends of CubeCL, one emulated on the processor included, and the
/// lock of other tests: results are the same in any order, but memory is measured.
#[expect(clippy::print_stderr, reason = "tells why a test passed without a device")]
fn gpus() -> (Vec<Device>, Alone) {
    let alone = alone();
    let types = [
        #[cfg(feature = "cuda")]
        DeviceType::Cuda,
        #[cfg(feature = "rocm")]
        DeviceType::Rocm,
        #[cfg(feature = "wgpu")]
        DeviceType::Wgpu,
    ];
    let devices: Vec<_> = types.into_iter().flat_map(Device::enumerate).collect();
    if devices.is_empty() {
        eprintln!("skipped: no device of a backend of CubeCL is found");
    }
    (devices, alone)
}

/// Pseudorandom numbers between -scale and scale, the same in every run.
fn numbers(count: usize, seed: u64, scale: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        scale * ((state >> 40) as f32 / 8_388_608.0 - 1.0)
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// A layer with its parameters, a batch and the gradients of its outputs.
#[derive(Debug, Clone)]
struct Case {
    config: KanLinearConfig,
    batch: usize,
    spline: Vec<f32>,
    base: Option<Vec<f32>>,
    scaler: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    x: Vec<f32>,
    dy: Vec<f32>,
}

/// The results of a case: `y`, then the gradients of `x` and of the parameters.
type Results = [Vec<f32>; 6];

const NAMES: [&str; 6] = ["y", "dx", "d spline", "d base", "d scaler", "d bias"];

impl Case {
    fn new(config: KanLinearConfig, batch: usize) -> Self {
        let (inputs, outputs) = (config.in_features, config.out_features);
        let bases = config.intervals + config.degree;
        let edges = |seed| numbers(inputs * outputs, seed, 1.0);
        Self {
            batch,
            spline: numbers(inputs * bases * outputs, 1, 1.0),
            base: config.activation.map(|_| edges(2)),
            scaler: config.scaler.then(|| edges(3)),
            bias: config.bias.then(|| numbers(outputs, 4, 1.0)),
            x: numbers(batch * inputs, 5, 1.9),
            dy: numbers(batch * outputs, 6, 1.0),
            config,
        }
    }

    fn layer(&self, device: &Device) -> KanLinear {
        let Self { config, spline, .. } = self;
        let (inputs, outputs) = (config.in_features, config.out_features);
        let mut layer = config.init(device);
        let tensor = |values: &Vec<f32>| TensorData::new(values.clone(), [inputs, outputs]);
        let edges =
            |values: &Vec<f32>| Param::from_tensor(Tensor::from_data(tensor(values), device));
        let bases = config.intervals + config.degree;
        let data = TensorData::new(spline.clone(), [inputs, bases, outputs]);
        layer.spline = Param::from_tensor(Tensor::from_data(data, device));
        layer.base = self.base.as_ref().map(edges);
        layer.scaler = self.scaler.as_ref().map(edges);
        let bias = |values: &Vec<f32>| Tensor::from_data(&values[..], device);
        layer.bias = self.bias.as_ref().map(|values| Param::from_tensor(bias(values)));
        layer
    }

    /// The results on a device with autodiff, by the kernels for GPUs.
    fn run(&self, device: &Device) -> Results {
        let layer = self.layer(device);
        assert_eq!(layer.plain_reason(), None);
        assert_eq!(layer.path(), LayerPath::Cube);
        let (inputs, outputs) = (self.config.in_features, self.config.out_features);
        let data = TensorData::new(self.x.clone(), [self.batch, inputs]);
        let x = Tensor::<2>::from_data(data, device).require_grad();
        let data = TensorData::new(self.dy.clone(), [self.batch, outputs]);
        let dy = Tensor::<2>::from_data(data, device);
        let y = layer.forward(x.clone());
        let gradients = (y.clone() * dy).sum().backward();
        let edges = |edges: &Option<Param<Tensor<2>>>| {
            let of = edges.as_ref().map(|edges| edges.val().grad(&gradients).expect("takes part"));
            of.map(values).unwrap_or_default()
        };
        let bias = layer.bias.as_ref().map(|bias| bias.val().grad(&gradients).expect("takes part"));
        [
            values(y),
            values(x.grad(&gradients).expect("takes part")),
            values(layer.spline.val().grad(&gradients).expect("takes part")),
            edges(&layer.base),
            edges(&layer.scaler),
            bias.map(values).unwrap_or_default(),
        ]
    }

    fn expected(&self) -> [Vec<f64>; 6] {
        let wide = |slice: &[f32]| slice.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
        let optional = |slice: &Option<Vec<f32>>| slice.as_deref().map(wide).unwrap_or_default();
        let parameters = Parameters {
            spline: wide(&self.spline),
            base: optional(&self.base),
            scaler: optional(&self.scaler),
            bias: optional(&self.bias),
        };
        let layer = self.config.init(&Device::flex());
        let (x, dy) = (wide(&self.x), wide(&self.dy));
        let y = reference::forward(layer.geometry(), &parameters, &x);
        let of = reference::backward(layer.geometry(), &parameters, &x, &dy);
        let Parameters { spline, base, scaler, bias } = of.parameters;
        [y, of.x, spline, base, scaler, bias]
    }

    /// Compares the kernels with the reference, and prints the largest error.
    fn check(&self, device: &Device) {
        let (actual, expected) = (self.run(device), self.expected());
        for ((name, actual), expected) in NAMES.iter().zip(&actual).zip(&expected) {
            let error = error(actual, expected);
            let case = format!("batch {}, {:?}", self.batch, self.config);
            println!("{name}: {error:e}, {case}");
            assert!(error <= CLOSE, "{name} differs by {error:e}, {case}");
        }
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32")
}

/// The largest difference, relative to the largest finite expected value; non-finite values have to
/// be equal.
fn error(actual: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let finite = expected.iter().filter(|value| value.is_finite());
    let scale = finite.fold(LEAST_SCALE, |most, value| most.max(value.abs()));
    let errors = actual.iter().zip(expected).map(|(&actual, &expected)| {
        let actual = f64::from(actual);
        if expected.is_finite() {
            let difference = (actual - expected).abs() / scale;
            if difference.is_nan() { f64::INFINITY } else { difference }
        } else if actual.is_nan() && expected.is_nan() || actual == expected {
            0.0
        } else {
            f64::INFINITY
        }
    });
    errors.fold(0.0, f64::max)
}

/// All results in bits.
fn bits(results: &Results) -> Vec<u32> {
    results.iter().flatten().map(|value| value.to_bits()).collect()
}

#[test]
fn outputs_and_gradients_are_those_of_the_reference_for_every_kind_of_layer() {
    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        for (degree, intervals) in [1, 2, 3].into_iter().flat_map(|d| [(d, 5), (d, 20)]) {
            let config = KanLinearConfig::new(7, 13).with_degree(degree).with_intervals(intervals);
            let bare = config.clone().with_activation(None).with_scaler(false);
            for config in [
                config.clone(),
                bare.clone().with_bias(true),
                config.clone().with_outside(Outside::Clamp).with_activation(Some(Activation::Relu)),
                config.with_outside(Outside::Extend).with_scaler(false).with_bias(true),
                bare.with_scaler(true).with_outside(Outside::Clamp),
            ] {
                Case::new(config, 37).check(&device);
            }
        }
    }
}

#[test]
fn outputs_and_gradients_are_those_of_the_reference_for_odd_sizes() {
    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        // Below, at and above the sizes of tiles; one of everything.
        for (batch, inputs, outputs) in [
            (1, 1, 1),
            (1, 9, 65),
            (31, 8, 64),
            (33, 17, 63),
            (128, 3, 32),
            (129, 2, 33),
            (300, 5, 129),
        ] {
            let config = KanLinearConfig::new(inputs, outputs).with_bias(true);
            Case::new(config.with_domain_low(-1.3).with_domain_high(0.9), batch).check(&device);
        }
        // Weights that do not fit into shared memory, and sums that need several windows.
        for intervals in [36, 37, 95, 96, 400] {
            let config = KanLinearConfig::new(9, 35).with_intervals(intervals).with_bias(true);
            Case::new(config, 70).check(&device);
        }
        // Sums of many terms.
        Case::new(KanLinearConfig::new(96, 40).with_intervals(20), 600).check(&device);
    }
}

#[test]
fn inputs_at_knots_and_far_outside_have_their_values() {
    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        for degree in 1..=3 {
            for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
                let config = KanLinearConfig::new(2, 18).with_intervals(4).with_degree(degree);
                let mut case = Case::new(config.with_outside(outside), 64);
                for (index, x) in case.x.iter_mut().enumerate() {
                    let knot = -3.0 + 0.5 * (index / 3) as f32;
                    // The slope of degree 1 jumps at knots, and a rounding error decides the side.
                    let beside = [knot, knot.next_up(), knot.next_down()][index % 3];
                    *x = if degree == 1 { knot + 0.125 } else { beside };
                }
                if outside != Outside::Extend {
                    case.x[5] = 1e30;
                    case.x[6] = -80.0;
                }
                case.check(&device);
            }
        }
    }
}

#[test]
fn nan_and_infinity_pass_as_in_the_definition() {
    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
                if outside == Outside::Extend && bad.is_infinite() {
                    // The reference's zeros are products there, and none is zero.
                    continue;
                }
                for (degree, activation) in
                    [(1, None), (2, Some(Activation::Silu)), (3, Some(Activation::Relu)), (3, None)]
                {
                    let config = KanLinearConfig::new(3, 17).with_degree(degree).with_bias(true);
                    let config = config.with_outside(outside).with_activation(activation);
                    let mut case = Case::new(config, 40);
                    case.x[31] = bad;
                    case.check(&device);
                }
            }
        }
    }
}

#[test]
fn extended_polynomials_have_no_value_at_infinity() {
    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        for (bad, degree) in [(f32::INFINITY, 1), (f32::NEG_INFINITY, 2), (f32::INFINITY, 3)] {
            let config = KanLinearConfig::new(3, 17).with_degree(degree).with_activation(None);
            let mut case = Case::new(config.with_outside(Outside::Extend), 40);
            case.x[31] = bad;
            let [y, ..] = case.run(&device);
            for (at, y) in y.iter().enumerate() {
                assert_eq!(y.is_nan(), at / 17 == 31 / 3, "degree {degree}");
            }
        }
    }
}

#[test]
fn what_is_not_finite_in_dy_reaches_what_its_sample_sees_and_nothing_else() {
    let (devices, _alone) = gpus();
    let [row, output, inputs, outputs] = [31, 11, 3, 17];
    for device in devices.into_iter().map(Device::autodiff) {
        for degree in 1..=3 {
            let config = KanLinearConfig::new(inputs, outputs).with_intervals(7).with_bias(true);
            let mut case = Case::new(config.with_degree(degree), 300);
            case.x[row * inputs..(row + 1) * inputs].copy_from_slice(&[-0.7, 0.05, 0.8]);
            let with = |dy: f32| {
                let mut case = case.clone();
                case.dy[row * outputs + output] = dy;
                case.run(&device)
            };
            let finite = with(0.0);
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let reached = with(bad);
                let grid = case.config.init(&Device::flex()).geometry().grid().clone();
                let is_seen = |which: usize, at: usize| match which {
                    1 => at / inputs == row,
                    2 => {
                        let (input, basis) =
                            (at / outputs / grid.bases(), at / outputs % grid.bases());
                        let x = f64::from(case.x[row * inputs + input]);
                        let values = reference::bases(&grid, input, x);
                        at % outputs == output && values[basis] != 0.0
                    }
                    _ => at % outputs == output,
                };
                for which in 1..6 {
                    for (at, (value, other)) in
                        reached[which].iter().zip(&finite[which]).enumerate()
                    {
                        let is_left = value.to_bits() == other.to_bits();
                        let is_right =
                            if is_seen(which, at) { !value.is_finite() } else { is_left };
                        assert!(is_right, "{} at {at}: {value}, {other}", NAMES[which]);
                    }
                }
            }
        }
    }
}

#[test]
fn two_runs_give_the_same_bits() {
    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        for intervals in [5, 20, 60] {
            let config = KanLinearConfig::new(30, 70).with_intervals(intervals).with_bias(true);
            let case = Case::new(config, 700);
            let first = bits(&case.run(&device));
            for _ in 0..3 {
                assert!(bits(&case.run(&device)) == first, "{intervals} intervals");
            }
        }
    }
}

#[test]
fn an_empty_batch_has_empty_outputs_and_gradients_of_zero() {
    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        let layer = Case::new(KanLinearConfig::new(3, 2).with_bias(true), 1).layer(&device);
        let y = layer.forward(Tensor::<2>::zeros([0, 3], &device));
        assert_eq!(y.dims(), [0, 2]);
        assert_eq!(layer.forward(Tensor::<3>::zeros([4, 0, 3], &device)).dims(), [4, 0, 2]);
        let gradients = y.sum().backward();
        let spline = layer.spline.val().grad(&gradients).expect("takes part");
        assert!(values(spline).iter().all(|&value| value == 0.0));
    }
}

#[test]
fn tensors_that_are_not_contiguous_are_read_in_their_order() {
    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        let case = Case::new(KanLinearConfig::new(6, 10), 12);
        let layer = case.layer(&device);
        let x = Tensor::<2>::from_data(TensorData::new(case.x.clone(), [12, 6]), &device);
        let expected = values(layer.forward(x.clone()));
        let turned = x.clone().transpose().mul_scalar(1.0).transpose();
        assert_eq!(values(layer.forward(turned.clone())), expected);
        let cut = Tensor::cat(vec![turned.clone(), turned], 1).narrow(1, 6, 6);
        assert_eq!(values(layer.forward(cut)), expected);
        let y = layer.forward(x.require_grad());
        // The gradient arrives transposed.
        let gradients = y.clone().transpose().mul_scalar(2.0).sum().backward();
        let plain = layer.clone().with_path(LayerPath::Plain);
        let x = Tensor::<2>::from_data(TensorData::new(case.x.clone(), [12, 6]), &device);
        let of_plain = plain.forward(x).mul_scalar(2.0).sum().backward();
        let [ours, plain] =
            [(&layer, &gradients), (&plain, &of_plain)].map(|(layer, gradients)| {
                values(layer.spline.val().grad(gradients).expect("takes part"))
            });
        let plain: Vec<_> = plain.into_iter().map(f64::from).collect();
        assert!(error(&ours, &plain) <= CLOSE);
    }
}

#[test]
fn only_the_gradients_that_take_part_are_computed() {
    use burn::module::Module;

    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        let case = Case::new(KanLinearConfig::new(5, 9), 20);
        let [_, of_x, of_spline, ..] = case.run(&device);
        let x = Tensor::<2>::from_data(TensorData::new(case.x.clone(), [20, 5]), &device);
        let dy = Tensor::<2>::from_data(TensorData::new(case.dy.clone(), [20, 9]), &device);
        let layer = case.layer(&device);
        let gradients = (layer.forward(x.clone()) * dy.clone()).sum().backward();
        assert!(x.grad(&gradients).is_none());
        assert_eq!(values(layer.spline.val().grad(&gradients).expect("takes part")), of_spline);
        let (x, layer) = (x.require_grad(), layer.no_grad());
        let gradients = (layer.forward(x.clone()) * dy).sum().backward();
        assert_eq!(values(x.grad(&gradients).expect("takes part")), of_x);
        assert!(layer.spline.val().grad(&gradients).is_none());
    }
}

#[test]
fn a_network_trains_as_on_burns_operations() {
    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        let case = Case::new(KanLinearConfig::new(6, 10), 50);
        let after = Case::new(KanLinearConfig::new(10, 3), 50);
        let loss = |path: Option<LayerPath>| {
            let mut layers = [case.layer(&device), after.layer(&device)];
            let x = Tensor::<2>::from_data(TensorData::new(case.x.clone(), [50, 6]), &device);
            let mut losses = Vec::new();
            for _ in 0..5 {
                let forced = layers.clone().map(|layer| match path {
                    Some(path) => layer.with_path(path),
                    None => layer,
                });
                let y = forced[1].forward(forced[0].forward(x.clone().mul_scalar(0.5)).tanh());
                let loss = y.powi_scalar(2).mean();
                losses.push(f64::from(values(loss.clone())[0]));
                let gradients = loss.backward();
                for layer in &mut layers {
                    let of = layer.spline.val().grad(&gradients).expect("takes part");
                    let spline = layer.spline.val().inner() - of.mul_scalar(0.5);
                    layer.spline = Param::from_tensor(Tensor::from_inner(spline));
                }
            }
            losses
        };
        let (ours, plain) = (loss(None), loss(Some(LayerPath::Plain)));
        assert!(ours[4] < 0.9 * ours[0], "{ours:?}");
        for (ours, plain) in ours.iter().zip(&plain) {
            assert!((ours / plain - 1.0).abs() <= 10.0 * CLOSE, "{ours} and {plain}");
        }
    }
}

#[test]
fn layers_without_kernels_report_the_reason_and_are_computed() {
    let (devices, _alone) = gpus();
    for device in devices {
        let config = KanLinearConfig::new(3, 4);
        for (config, reason) in [
            (config.clone().with_degree(0), PlainReason::Degree { degree: 0 }),
            (config.clone().with_degree(4), PlainReason::Degree { degree: 4 }),
            (config.clone().with_intervals(3000), PlainReason::Intervals),
        ] {
            let layer = config.init(&device);
            assert_eq!((layer.path(), layer.plain_reason()), (LayerPath::Plain, Some(reason)));
            assert_eq!(layer.forward(Tensor::<2>::zeros([2, 3], &device)).dims(), [2, 4]);
        }
        let layer = config.init(&device).with_path(LayerPath::Plain);
        assert_eq!(layer.plain_reason(), Some(PlainReason::Forced));
        let conv = KanConv1dConfig::new([2, 3], [3]).init(&device);
        assert_eq!(conv.plain_reason(), Some(PlainReason::Convolution));
        assert_eq!(conv.path(), LayerPath::Plain);
        assert_eq!(conv.forward(Tensor::zeros([1, 2, 8], &device)).dims()[1], 3);
        // Packing is for the CPU: the layer stays as it is.
        let packed = config.init(&device).pack();
        assert_eq!(packed.path(), LayerPath::Cube);
        assert_eq!(packed.forward(Tensor::<2>::zeros([2, 3], &device)).dims(), [2, 4]);
    }
    let layer = KanLinearConfig::new(3, 4).with_degree(4).init(&Device::flex());
    assert_eq!(layer.plain_reason(), None);
}

#[test]
#[should_panic(expected = "no such kernels for the device")]
fn kernels_forced_on_another_device_are_refused() {
    let device = Device::flex();
    let layer = KanLinearConfig::new(3, 4).init(&device).with_path(LayerPath::Cube);
    let _ = layer.forward(Tensor::<2>::zeros([2, 3], &device));
}

#[test]
#[should_panic(expected = "the kernels for GPUs compute degrees 1 to 3")]
fn kernels_forced_on_another_grid_are_refused() {
    let device = Device::flex();
    let layer = KanLinearConfig::new(3, 4).with_degree(4).init(&device).with_path(LayerPath::Cube);
    let _ = layer.forward(Tensor::<2>::zeros([2, 3], &device));
}

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
    assert!(x.grad(&gradients).is_some());
    drop(gradients);
    device.memory_cleanup();
    [kept, grown.saturating_sub(results)]
}

#[test]
fn a_training_step_keeps_no_bases_and_needs_a_tenth_of_the_plain_paths_memory() {
    let (devices, _alone) = gpus();
    for device in devices.into_iter().map(Device::autodiff) {
        let config = KanLinearConfig::new(512, 512).with_intervals(20);
        let case = Case::new(config, 256);
        // The kernels are compiled, and constants of the pools allocated, in a first step.
        step(&device, &case, LayerPath::Cube);
        let [kept, needed] = step(&device, &case, LayerPath::Cube);
        let [plain_kept, plain_needed] = step(&device, &case, LayerPath::Plain);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "kept for the backward pass: kernels {:.1} MiB, plain {:.1} MiB; \
             a step: kernels {:.1} MiB, plain {:.1} MiB",
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
